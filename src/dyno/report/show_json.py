"""Keys of the JSON that `dyno show --json` prints, in their order.

docs/reference/show-json.md and `dyno schema show` follow from these types. Measured quantities are described in
`dyno.fields`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from dyno.contracts.decoded_types import Fact, Loop, Point, Used, Value
from dyno.contracts.limits import Probe
from dyno.contracts.model import Caveat
from dyno.results.header import Commit
from dyno.stats.estimate import Estimate
from dyno.stats.machine import Finding

EngineName = Annotated[str, Meta(description="The requested engine with its options: `ENGINE:NAME=VALUE`.")]
Params = Annotated[
    Mapping[str, Value], Meta(description="The suite's parameters; of a cell, also `clients` and `rate`.")
]
TierName = Annotated[str | None, Meta(description="`volatile`, `process` or `power`; null if nothing is stored.")]


class Latencies(TypedDict):
    p50: int | None
    p90: int | None
    p95: int | None
    p99: int | None
    p999: int | None
    max: int | None


@dataclass(frozen=True, slots=True)
class Rate(Estimate):
    unit: str
    """`key/s`, `op/s`, `B/s`: all clients together."""


class CPU(Struct, frozen=True):
    client: float | None
    server: float | None
    """Null without a server, and if it used under 50 ms in a sample."""


class CapacityFound(Struct, frozen=True):
    kind: str
    """`found`, `at least`, `none`, `unsteady`, `unsustained`, `failed`, `unfinished` or `out of time`."""
    per_second: float | None
    low: float | None
    """Lower end of the 95 % interval; without a figure, the highest rate that held."""
    high: float | None
    """Upper end; without a figure, the lowest rate that broke a limit."""
    limit: str | None
    """The limit that binds."""
    maximum: float | None
    """Operations per second of the closed loop."""
    wall_s: float
    """Time of all trials of the search."""
    forecast_s: float | None
    """Time of a usual search, forecast after the closed loop."""
    bound_s: float | None
    """The search's share of `within`; null for run files of 0.1.0."""
    lost: list[str]
    """Why trials of the search were lost, in their order."""
    probes: list[Probe]


class CellRow(Struct, frozen=True, kw_only=True):
    suite: str
    engine: EngineName
    phase: str
    reported_by: str | None
    params: Params
    tier: TierName
    floor: bool
    """Whether it is a null engine's row."""
    valid: bool
    why: str | None
    """Why there is no number: begins with `void`, `crash`, `timeout`, `out-of-memory`, `refused`, `error` or `not
    measured yet`."""
    samples: int
    operations: int | None
    items: int | None
    elapsed_ns: int | None
    wall_ns: int | None
    pause_cpu_ns: int | None
    throughput: Rate | None
    metric: str
    """The metric by which rows of the phase are compared."""
    capacity: CapacityFound | UnsetType = UNSET
    """In a search for a capacity only."""
    bytes: int | None
    bandwidth: Rate | None
    due: int | None
    offered_per_second: float | None
    """Operations due per second in an open loop."""
    served_per_second: float | None
    """Operations done per second in an open loop."""
    cpu_ns_per_item: CPU
    account_ns: Mapping[str, float]
    """Where the time of an item goes: `total` and its parts, as means over the samples. Empty if it is unknown."""
    latency_ns: Latencies
    latency_by_kind_ns: Mapping[str, Latencies]
    latency_by_part_ns: Mapping[str, Latencies]
    latency_by_machine_ns: Mapping[str, Latencies]
    response_ns: Latencies
    late_ns: Latencies
    series: list[list[Point]]
    """A list of points for each sample."""
    temperature: str
    resident_percent: float | None
    client: Used | None
    server: Mapping[str, int | None] | None
    """The keys of `client`."""
    client_peak_bytes: int | None
    server_peak_bytes: int | None
    bytes_on_disk: int | None
    write_amplification: float | None
    """Bytes to the device per byte stored by the application."""
    counters: Mapping[str, int]
    """Growth of the engine's own counters during the phase: medians over the samples."""
    facts: Mapping[str, Fact]
    """The suite's facts: medians over the samples."""
    trial_facts: Mapping[str, Fact]
    loop: Loop | None
    """The measuring loop of the last trial."""
    version: str | None
    settings: Mapping[str, Fact] | None
    """Settings in effect."""
    caveats: list[Caveat]
    doubts: list[Caveat]


class Place(Struct, frozen=True):
    suite: str
    engine: EngineName
    phase: str
    params: Params
    tier: TierName


class AbsentPhase(Place, frozen=True):
    why: str


class CostOfRow(Place, frozen=True, kw_only=True):
    million: float | None
    """Cost of a million operations of the phase."""
    month: float | None
    machines: list[int] | UnsetType = UNSET
    """Only with a capacity and a load: their number by the high and by the low end of the interval. The costs are for
    the former."""
    month_most: float | UnsetType | None = UNSET
    currency: str


class Show(Struct, frozen=True):
    """A run as `dyno show --json` prints it."""

    schema: int
    """Version of this format: 1."""
    suite: str
    complete: bool
    """Whether every planned trial has ended."""
    created: str | None
    """UTC, ISO 8601."""
    commit: Commit | None
    """As in the [run file](run-file.md#the-first-line)."""
    dyno: str | None
    plan: Mapping[str, object]
    """As in the [run file](run-file.md#the-first-line)."""
    host: Mapping[str, object]
    """As in the [run file](run-file.md#the-machine)."""
    machine_doubts: list[Finding]
    cells: list[CellRow]
    """Grouped by phase, tier and parameters; the best first, null engines last. Keys without a meaning here are
    [measured quantities](measured-quantities.md)."""
    absent: list[AbsentPhase]
    """Phases that make no sense for an engine."""
    costs: list[CostOfRow] | None
    """Null without `--prices`."""
