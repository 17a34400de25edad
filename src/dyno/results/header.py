"""What the first line of a run file has, and the last: see docs/run-file.md. What a file of an earlier version does
not tell need not be there. Nothing of what a field means may be put here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, get_type_hints

from msgspec import Meta

from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Amount, Count, Fact, Percent, Text
from dyno.options import PlanOptions

MOST_CELLS, MOST_PHASES = 100_000, 1_000
Texts = list[Text]
Written = Literal["count", "bytes", "ratio", "rate", "ns", "bandwidth"]
"""How a figure is written."""


class _Work(TypedDict):
    suite: Text
    phases: Annotated[Texts, Meta(min_length=1, max_length=MOST_PHASES)]


if TYPE_CHECKING:
    Plan = Mapping[str, Any]
else:
    _types = get_type_hints(PlanOptions, include_extras=True)
    _required = {name: _types.pop(name) for name in ("samples", "seed", "budget")}
    _Required = TypedDict("_Required", _required)
    _Optional = TypedDict("_Optional", _types, total=False)

    class Plan(_Work, _Required, _Optional):
        """The work, and the options of `dyno.options.PlanOptions`. Files of earlier versions lack some."""


class _Named(TypedDict):
    name: Text


class Phase(_Named, total=False):
    title: Text
    unit: Text
    writes: bool
    temperature: Text
    checked: Text
    kinds: Mapping[Text, bool]
    parts: Texts
    reported: bool
    metric: Text
    alias: Text


class _Column(TypedDict):
    title: Text
    of: Literal["param", "fact", "rate", "operations", "bandwidth"]
    name: Text


class Column(_Column, total=False):
    kind: Written | Literal["text"]


class Layout(TypedDict, total=False):
    columns: list[Column]
    legend: Texts
    title: Text
    beside: bool


class _Axis(TypedDict):
    of: Literal["param", "fact", "metric"]
    name: Text


class Axis(_Axis, total=False):
    title: Text
    kind: Written
    scale: Literal["linear", "log"]
    marks: Texts


class _Curve(TypedDict):
    name: Text
    title: Text
    reading: Text
    x: Axis
    y: Axis


class Curve(_Curve, total=False):
    line: Text
    point: Text
    phases: Texts


class Cpu(TypedDict, total=False):
    model: Text | None
    logical_cores: Count | None
    available_cores: Count | None
    quota_cores: Amount | None
    governor: Text | None
    mhz: Count | None
    max_mhz: Count | None
    turbo: bool | None
    virtualised: bool | None


class MemoryFacts(TypedDict, total=False):
    total_bytes: Count | None
    available_bytes: Count | None
    swap_total_bytes: Count | None
    swap_used_bytes: Count | None
    cgroup_limit_bytes: Count | None


class System(TypedDict, total=False):
    os: Text | None
    kernel: Text | None
    architecture: Text | None
    libc: Text | None


class Python(TypedDict, total=False):
    version: Text | None
    implementation: Text | None


class Filesystem(TypedDict, total=False):
    mount_point: Text | None
    type: Text | None
    device: Text | None
    options: Texts | None
    ram_backed: bool | None
    network: bool | None
    rotational: bool | None
    write_cache: Text | None
    total_bytes: Count | None
    free_bytes: Count | None
    fsync_ns: Count | None


class Clock(TypedDict, total=False):
    source: Text | None
    cost_ns: Amount | None
    resolution_ns: Amount | None


class Load(TypedDict, total=False):
    minutes_1: Amount | None
    minutes_5: Amount | None
    minutes_15: Amount | None


class Pressure(TypedDict, total=False):
    seconds: Amount | None
    steal_percent: Percent | None
    others_busy_percent: Percent | None
    swapped_in_bytes: Count | None
    swapped_out_bytes: Count | None


class Wakeups(TypedDict, total=False):
    cost_ns: Amount | None
    apart: Mapping[Text, Amount | None] | None
    free: Mapping[Text, Amount | None] | None


class Ceilings(TypedDict, total=False):
    flushes_per_second: Amount | None
    memory_bytes_per_second: Amount | None
    core_bytes_per_second: Amount | None
    core_events_per_second: Amount | None
    probed: Text | None


class Host(TypedDict, total=False):
    cpu: Cpu | None
    memory: MemoryFacts | None
    system: System | None
    python: Python | None
    filesystem: Filesystem | None
    clock: Clock | None
    load: Load | None
    steal_percent: Percent | None
    psi: Mapping[Text, Mapping[Text, Percent | None]] | None
    pressure: Pressure | None
    wakeups: Wakeups | None
    ceilings: Ceilings | None


class Crashes(TypedDict):
    count: Count
    outcomes: Mapping[Text, Count]
    lost: Count


class _Crashed(TypedDict):
    engine: Text
    tier: Text


class Crashed(_Crashed, total=False):
    settings: Mapping[Text, Fact]
    version: Text | None
    verdict: Text
    why: Text
    traced: Text | None
    model: Text
    system: Text | None
    killed: Crashes | None
    cut: Crashes | None
    recovery: Crashes | None
    birth: Crashes | None
    device: Crashes | None


class End(TypedDict):
    """The line that ends a run whose number of blocks was left open."""

    why: Text


class _Whole(TypedDict):
    kind: Text
    schema: int
    plan: Plan
    host: Host
    cells: Annotated[tuple[Cell, ...], Meta(min_length=1, max_length=MOST_CELLS)]


class _Header(_Whole, total=False):
    dyno: Text | None
    created: Text | None
    phases: list[Phase] | None
    layout: Layout | None
    charts: list[Curve] | None
    crashed: list[Crashed] | None


if TYPE_CHECKING:
    # Reports go through its parts by name.
    Header = Mapping[str, Any]
else:
    Header = _Header
