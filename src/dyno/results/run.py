"""A run and the attempts at its trials, in memory, with the labels of its rows; and the schema of a run file's first
and last line: see docs/reference/run-file.md. Files of earlier versions lack some of the keys.

A label is the requested engine. If the run has several versions of the engine, the version is added; if another
product answered, the label names that product.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, get_type_hints
from urllib.parse import urlsplit

from msgspec import Meta

from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Amount, Count, Fact, Loop, Percent, Positive, Resources, Strain, Text
from dyno.contracts.limits import Limit, parse_all
from dyno.contracts.model import STAND_IN_PREFIX, Caveat, Phase, Tier, weakest
from dyno.fields import Sample
from dyno.options import PlanOptions

MOST_CELLS, MOST_PHASES = 100_000, 1_000
SHORT_HASH = 10
"""Number of digits by which a commit is shown."""
Texts = list[Text]


class Crashes(TypedDict):
    count: Count
    outcomes: Mapping[Text, Count]
    lost: Count


class Extension(TypedDict):
    """A line of a run that was resumed with more samples than it was begun with."""

    samples: Positive


class End(TypedDict):
    """The last line of a run whose number of blocks was not fixed."""

    why: Text


if TYPE_CHECKING:
    Header = Mapping[str, Any]
else:

    def _object(required: Mapping[str, Any], **optional: Any) -> type:

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

    _column = Literal["param", "phase", "fact", "facts", "rate", "operations", "bandwidth"]
    _format = Literal["count", "bytes", "kb", "ratio", "rate", "ns", "bandwidth"]
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
        {"title": Text, "of": _column, "name": Text},
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
    _hash = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{7,64}\Z")]
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
        commit=_object({"hash": _hash}, changed=bool | None) | None,
        preset=Text | None,
        experiment=Text | None,
        missing=Mapping[Text, Text] | None,
        left_out=Texts | None,
        phases=list[_phase] | None,
        native=Texts | None,
        layout=_layout | None,
        charts=list[_curve] | None,
        crashed=list[_crashed] | None,
        definition=dict[str, Any] | None,
    )


FLOOR_BLOCKS = 3
"""Number of blocks in which every null engine has a trial. A later block repeats a null engine only while its
interval is wide."""
_PHASE = frozenset(known.name for known in fields(Phase))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a trial: its outcome, and its measurements up to its end."""

    cell: Count
    block: Count
    attempt: Count
    outcome: Text
    """'ok', 'wrong' (voided by a wrong answer outside a phase), 'crash', 'timeout', 'out-of-memory', 'refused' or
    'error'."""
    why: Text | None
    phase: Text | None
    """The phase in which the attempt ended, if its outcome is not 'ok'."""
    samples: tuple[Sample, ...]
    started: Text
    """Time in UTC, in the format of ISO 8601."""
    duration_ns: Count
    version: Text | None
    settings: Mapping[Text, Fact] | None
    caveats: tuple[Caveat, ...]
    resources: Resources
    """Usage of the whole trial: `client`, `server` and `peak_anonymous_bytes`."""
    output: Text | None
    """The end of the trial's output, if its outcome is not 'ok'."""
    loop: Loop | None = None
    """Name, clock and cost of the measuring loop: see `measure.loop.about`."""
    absent: Mapping[Text, Text] = field(default_factory=dict)
    """Phases that make no sense for the engine, each with the reason."""
    facts: Mapping[Text, Fact] = field(default_factory=dict)
    """The suite's facts about the whole trial, by name."""
    spent_ns: Mapping[Text, Count] = field(default_factory=dict)
    """The worker's time by lap: see docs/reference/run-file.md."""
    tier: Tier | None = None
    """The tier that the settings of a user's own server provide. None for other engines, or if it can't be read."""
    stage: Text | None = None
    """Of a probe in a search for a capacity: the stage of the search, and the operations due per second."""
    rate: Amount | None = None
    strain: Strain = field(default_factory=dict)
    """Load of the machine during the trial: see `host.facts.since`."""


@dataclass(frozen=True, eq=False)
class Run:
    """A loaded run file. Runs are compared by identity, so that they can be keys."""

    path: Path
    header: Header
    cells: tuple[Cell, ...]
    attempts: tuple[Attempt, ...]
    ending: str | None = None
    """Why an ended run with `until` added no further block: 'narrow' or 'time'. None for other runs."""

    @property
    def plan(self) -> Mapping[str, Any]:
        plan: Mapping[str, Any] = self.header["plan"]
        return plan

    @property
    def commit(self) -> str | None:
        """The short hash of the commit from which the run was started, and whether there were changes; None if it is
        unknown."""
        commit = self.header.get("commit")
        if commit is None:
            return None
        return f"{commit['hash'][:SHORT_HASH]}{' with changes' * bool(commit.get('changed'))}"

    @cached_property
    def phases(self) -> Mapping[str, Phase]:
        """The suite's declarations of the plan's phases; defaults if the run file lacks them."""
        declared = {phase["name"]: phase for phase in self.header.get("phases") or ()}
        phases = {}
        for name in self.plan["phases"]:
            # Fields of a later schema are ignored.
            data = {key: value for key, value in declared.get(name, {}).items() if key in _PHASE}
            values = {"title": name, "unit": "op", "writes": False, **data, "name": name}
            phases[name] = Phase(**{**values, "parts": tuple(values.get("parts", ()))})
        return phases

    def final(self) -> list[Attempt]:
        """Returns the last attempt of every trial that has ended."""
        return list({(a.cell, a.block): a for a in self.attempts}.values())

    @cached_property
    def blocks(self) -> int:
        """The planned number of blocks. With `until`, the number of blocks that have begun, if it is larger or the
        run has ended."""
        planned = int(self.plan["samples"])
        if self.plan.get("until") is None and not self.limits:
            return planned
        begun = max((attempt.block + 1 for attempt in self.attempts), default=0)
        return begun if self.ending else max(planned, begun)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits under which the run searches capacities; empty for another run."""
        return parse_all(self.plan["limit"]) if self.plan.get("limit") else ()

    @property
    def complete(self) -> bool:
        if self.limits or (self.plan.get("until") is not None and self.ending is None):
            return self.ending is not None
        ended = Counter(attempt.cell for attempt in self.final())
        return all(ended[at] >= self.trials(at) for at in range(len(self.cells)))

    def trials(self, cell: int) -> int:
        """Returns the number of trials of a cell: one in each block, fewer for a null engine."""
        return min(self.blocks, FLOOR_BLOCKS) if is_reference(self.cells, self.cells[cell]) else self.blocks

    @property
    def progress(self) -> tuple[int, int]:
        """The number of trials that have ended, and the number of all trials."""
        ended = Counter(attempt.cell for attempt in self.final())
        return ended.total(), sum(max(self.trials(at), ended[at]) for at in range(len(self.cells)))


def defined_work(header: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the user's definition of the work, empty if there is none. It has neither the directory of the user's
    code nor paths of data files, because the same files may be elsewhere; the SHA-256 of data files stays."""
    definition: dict[str, Any] = dict(header.get("definition") or {})
    definition.pop("directory", None)
    tables = definition.get("tables")
    if isinstance(tables, dict):
        definition["tables"] = {
            name: {key: value for key, value in table.items() if key != "file"} if isinstance(table, dict) else table
            for name, table in tables.items()
        }
    return definition


def is_reference(cells: Iterable[Cell], cell: Cell) -> bool:
    """Returns whether the cell is a null engine's in a run of other engines. Such a cell only shows the harness's
    cost."""
    return cell.floor and not all(other.floor for other in cells)


def apply_server_tiers(cells: Sequence[Cell], attempts: Iterable[Attempt]) -> None:
    """Sets the tier of each cell that follows its server to the weakest tier of its trials. If no other cell is left
    at a null engine's tier, the null engine gets the new tier too."""
    tiers: dict[int, Tier] = {}
    for each in attempts:
        if each.tier is not None and cells[each.cell].follows:
            tiers[each.cell] = weakest((tiers.get(each.cell, each.tier), each.tier))
    by_planned = {cells[at].tier: tier for at, tier in tiers.items()}
    for at, tier in tiers.items():
        object.__setattr__(cells[at], "tier", tier)
    left = {cell.tier for cell in cells if not cell.floor}
    for cell in cells:
        if cell.floor and cell.tier not in left and cell.tier in by_planned:
            object.__setattr__(cell, "tier", by_planned[cell.tier])


URL = "url"
PROGRAM = "program"
"""Option that selects another program of the same server. The label then has the program's version rather than its
path."""


def set_labels(cells: Sequence[Cell], attempts: Sequence[Attempt]) -> None:
    """Sets the labels of cells whose engine name alone is ambiguous."""
    versions = {each.cell: number for each in attempts if (number := _number(each.version))}
    by_engine: dict[str, dict[str, str]] = {}
    for at, cell in enumerate(cells):
        if not cell.floor and at in versions:
            by_engine.setdefault(cell.engine, {})[cell.asked] = versions[at]
    several = {engine for engine, of in by_engine.items() if len(set(of.values())) > 1}
    several |= {cell.engine for cell in cells if PROGRAM in cell.options}
    named = {
        at: f"{cell.engine} {versions[at]}"
        for at, cell in enumerate(cells)
        if cell.engine in several and at in versions
    }
    for each in attempts:
        engine = cells[each.cell].engine
        if each.version and any(caveat.code == STAND_IN_PREFIX + engine for caveat in each.caveats):
            # The server was another product than the engine's name says: 'MariaDB 10.11.19 (as mysql)'.
            named[each.cell] = f"{each.version.partition('(')[0].strip()} (as {engine})"
    named = {at: name for at, name in named.items() if cells[at].name is None}
    short = {cells[at].asked: f"{name}{_options(cells[at], PROGRAM)}" for at, name in named.items()}
    for at, name in named.items():
        # Two programs of the same version differ only in their paths.
        alone = list(short.values()).count(short[cells[at].asked]) == 1
        object.__setattr__(cells[at], "label", short[cells[at].asked] if alone else f"{name}{_options(cells[at])}")
    # Shorten an address to 'postgresql at db.example:5432/shop' if no other row has the same short label.
    unnamed = [cell for at, cell in enumerate(cells) if cell.name is None and at not in named]
    places = {cell.asked: place for cell in unnamed if (place := _place(cell))}
    for cell in unnamed:
        place = places.get(cell.asked)
        if place is not None and list(places.values()).count(place) == 1:
            object.__setattr__(cell, "label", place)


def _place(cell: Cell) -> str | None:
    """Returns the label with the address without user, password and query; None if the row has no valid address."""
    text = str(cell.options.get(URL, ""))
    try:
        address = urlsplit(text)
        host, port = address.hostname, address.port
    except ValueError:
        return None
    if "://" not in text or not host:
        return None
    host = f"[{host}]" if ":" in host else host
    return f"{cell.engine} at {host}{'' if port is None else f':{port}'}{address.path}{_options(cell, URL)}"


def _options(cell: Cell, without: str = "") -> str:
    options = {name: value for name, value in cell.options.items() if name != without}
    return Cell("", "", options, None, {}).label


def _number(version: str | None) -> str | None:
    """Returns '15.18' for 'PostgreSQL 15.18 (psycopg 3.2.1, libpq 17.5)'."""
    match = re.search(r"(?<!\S)v?(\d\S*)", (version or "").partition("(")[0])
    return match[1] if match else None
