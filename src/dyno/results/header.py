"""Schema of the first and the last line of a run file: see docs/reference/run-file.md. Files of earlier versions lack
some of the keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, get_type_hints

from msgspec import Meta

from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Amount, Count, Fact, Percent, Text
from dyno.options import PlanOptions

MOST_CELLS, MOST_PHASES = 100_000, 1_000
Texts = list[Text]


class Crashes(TypedDict):
    count: Count
    outcomes: Mapping[Text, Count]
    lost: Count


class End(TypedDict):
    """The last line of a run whose number of blocks was not fixed."""

    why: Text


if TYPE_CHECKING:
    Header = Mapping[str, Any]
else:

    def _object(required: Mapping[str, Any], **optional: Any) -> type:
        """Returns the type of a JSON object, from its keys and their types."""

        class Required(TypedDict("_Required", required)):
            pass

        class Object(Required, TypedDict("_Optional", optional, total=False)):
            pass

        return Object

    def _facts(**names: Any) -> Any:
        """Returns the type of an object of facts, each of which may be missing or null. `names` has the keys of each
        type, separated by blanks."""
        types = {"texts": Text, "counts": Count, "amounts": Amount, "percents": Percent, "flags": bool}
        keys = {key: types[kind] | None for kind, listed in names.items() for key in listed.split()}
        return _object({}, **keys) | None

    _format = Literal["count", "bytes", "ratio", "rate", "ns", "bandwidth"]
    _phase = _object(
        {"name": Text},
        title=Text,
        unit=Text,
        writes=bool,
        temperature=Text,
        checked=Text,
        kinds=Mapping[Text, bool],
        parts=Texts,
        reported=bool,
        metric=Text,
        alias=Text,
    )
    _column = _object(
        {"title": Text, "of": Literal["param", "fact", "rate", "operations", "bandwidth"], "name": Text},
        kind=_format | Literal["text"],
    )
    _layout = _object({}, columns=list[_column], legend=Texts, title=Text, beside=bool)
    _axis = _object(
        {"of": Literal["param", "fact", "metric"], "name": Text},
        title=Text,
        kind=_format,
        scale=Literal["linear", "log"],
        marks=Texts,
    )
    _curve = _object(
        {"name": Text, "title": Text, "reading": Text, "x": _axis, "y": _axis}, line=Text, point=Text, phases=Texts
    )
    _amounts = Mapping[Text, Amount | None] | None
    _host = _object(
        {},
        cpu=_facts(
            texts="model governor",
            counts="logical_cores available_cores mhz max_mhz",
            amounts="quota_cores",
            flags="turbo virtualised",
        ),
        memory=_facts(counts="total_bytes available_bytes swap_total_bytes swap_used_bytes cgroup_limit_bytes"),
        system=_facts(texts="os kernel architecture libc"),
        python=_facts(texts="version implementation"),
        filesystem=_object(
            {},
            options=Texts | None,
            **dict.fromkeys(("mount_point", "type", "device", "write_cache"), Text | None),
            **dict.fromkeys(("ram_backed", "network", "rotational"), bool | None),
            **dict.fromkeys(("total_bytes", "free_bytes", "fsync_ns"), Count | None),
        )
        | None,
        clock=_facts(texts="source", amounts="cost_ns resolution_ns"),
        load=_facts(amounts="minutes_1 minutes_5 minutes_15"),
        steal_percent=Percent | None,
        psi=Mapping[Text, Mapping[Text, Percent | None]] | None,
        pressure=_facts(
            amounts="seconds",
            percents="steal_percent others_busy_percent",
            counts="swapped_in_bytes swapped_out_bytes",
        ),
        wakeups=_object({}, cost_ns=Amount | None, apart=_amounts, free=_amounts) | None,
        ceilings=_facts(
            amounts="flushes_per_second memory_bytes_per_second core_bytes_per_second core_events_per_second",
            texts="probed",
        ),
    )
    _crashed = _object(
        {"engine": Text, "tier": Text},
        settings=Mapping[Text, Fact],
        **dict.fromkeys(("verdict", "why", "model"), Text),
        **dict.fromkeys(("version", "traced", "system"), Text | None),
        **dict.fromkeys(("killed", "cut", "recovery", "birth", "device"), Crashes | None),
    )
    # The options of `dyno.options.PlanOptions`. Earlier versions had only some of them.
    _options = get_type_hints(PlanOptions, include_extras=True)
    _plan = _object(
        {
            "suite": Text,
            "phases": Annotated[Texts, Meta(min_length=1, max_length=MOST_PHASES)],
            **{name: _options.pop(name) for name in ("samples", "seed", "budget")},
        },
        **_options,
    )
    Header = _object(
        {
            "kind": Text,
            "schema": int,
            "plan": _plan,
            "host": _host,
            "cells": Annotated[tuple[Cell, ...], Meta(min_length=1, max_length=MOST_CELLS)],
        },
        dyno=Text | None,
        created=Text | None,
        phases=list[_phase] | None,
        native=Texts | None,
        layout=_layout | None,
        charts=list[_curve] | None,
        crashed=list[_crashed] | None,
    )
