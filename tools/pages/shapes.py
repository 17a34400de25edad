"""Shapes of the JSON that `dyno show`, `dyno compare` and `dyno check` print, and of parts of the run file.

A docstring says what a key's name does not. Tests compare the pages with what the commands print.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from dyno.contracts.decoded_types import Fact, Value, _Loop, _Point


class Latencies(TypedDict):
    p50: int | None
    p90: int | None
    p95: int | None
    p99: int | None
    p999: int | None
    max: int | None


class Place(TypedDict):
    suite: str
    engine: str
    """The requested engine with its options: `sqlite:journal_mode=delete`."""
    phase: str
    params: Mapping[str, Value]
    """Every parameter of the suite, `clients` and `rate`."""
    tier: str | None
    """`volatile`, `process` or `power`; null if nothing is stored."""


class Interval(TypedDict):
    median: float
    low: float | None
    """Lower end of the 95 % interval; null under 3 samples."""
    high: float | None


class Throughput(Interval):
    unit: str
    """`key/s`, `op/s`, `B/s`: all clients together."""


class CPU(TypedDict):
    client: float | None
    server: float | None
    """Null without a server, and if it used under 50 ms in a sample."""


class Remark(TypedDict):
    code: str
    text: str


class MachineDoubt(Remark):
    severity: str
    """`warn` or `bad`."""
    remedy: str


class Used(TypedDict):
    user_ns: int | None
    system_ns: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    major_faults: int | None
    asked_bytes: int | None
    """Read by system calls, from wherever."""
    read_bytes: int | None
    """Read from the device."""
    written_bytes: int | None
    """Dirtied pages, less those dropped before they were flushed."""


class ProbeShape(TypedDict):
    stage: str
    """`explore`, `confirm` or `last`."""
    rate: float
    """Operations due per second."""
    operations: int
    """Operations that were due after the first fifth; 0 if the trial has failed."""
    broken: list[int]
    """How many of them broke each limit."""
    client_limited: bool
    """Whether the load generator was the limit."""
    final: bool
    """Whether the trial failed for good: a wrong answer, or a refusal."""


class CapacityShape(TypedDict):
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
    probes: list[ProbeShape]


class Row(Place):
    floor: bool
    """Whether it is a null engine's row."""
    valid: bool
    why: str | None
    """Why there is no number: begins with `void`, `crash`, `timeout`, `out-of-memory`, `refused`, `error` or `not
    measured yet`."""
    samples: int
    throughput: Throughput | None
    metric: str
    """What rows of the phase are compared by."""
    capacity: CapacityShape
    """In a search for a capacity only."""
    bandwidth: Throughput | None
    offered_per_second: float | None
    """Of an open loop: operations due per second."""
    served_per_second: float | None
    """Of an open loop: operations done per second."""
    cpu_ns_per_item: CPU
    latency_ns: Latencies
    latency_by_kind_ns: Mapping[str, Latencies]
    latency_by_part_ns: Mapping[str, Latencies]
    response_ns: Latencies
    late_ns: Latencies
    series: list[list[_Point]]
    """A list of points for each sample."""
    client: Used
    server: Mapping[str, int | None]
    """The keys of `client`."""
    write_amplification: float | None
    """Bytes to the device per byte stored by the application."""
    facts: Mapping[str, Fact]
    """The suite's facts: medians over the samples."""
    trial_facts: Mapping[str, Fact]
    loop: _Loop | None
    """The measuring loop of the last trial."""
    version: str | None
    settings: Mapping[str, Fact] | None
    """Settings in effect."""
    caveats: list[Remark]
    doubts: list[Remark]


class Absence(Place):
    why: str


class Cost(Place):
    million: float | None
    """Cost of a million operations of the phase."""
    month: float | None
    machines: list[int]
    """Of a capacity and a load only: by the high and the low end of its interval. The costs are of the former."""
    month_most: float | None
    currency: str


class Commit(TypedDict):
    hash: str
    changed: bool | None


class Show(TypedDict):
    schema: int
    """Version of this format: 1."""
    suite: str
    complete: bool
    """Whether every planned trial has ended."""
    created: str
    """UTC, ISO 8601."""
    commit: Commit | None
    """As in the [run file](run-file.md#the-first-line)."""
    dyno: str
    plan: object
    """As in the [run file](run-file.md#the-first-line)."""
    host: object
    """As in the [run file](run-file.md#the-machine)."""
    machine_doubts: list[MachineDoubt]
    cells: list[Row]
    """Grouped by phase, tier and parameters; the best first, null engines last. Also has the
    [measured quantities](measured-quantities.md)."""
    absent: list[Absence]
    """Phases that make no sense for an engine."""
    costs: list[Cost] | None
    """Null without `--prices`."""


class Compared(TypedDict):
    phase: str
    tier: str | None
    params: Mapping[str, Value]
    metric: str
    reported_by: str | None
    """The outside tool that measured; null if Dyno timed it."""
    engine: str
    kind: str
    """`faster`, `slower`, `alike` (no difference above the margin) or `unclear`."""
    ratio: float | None
    """Ratio of speeds: above 1 is better, for times and memory too; null under 3 blocks."""
    low: float | None
    high: float | None
    bound: float | None
    """The smallest difference if faster or slower, the largest if alike, as a share."""
    blocks: int
    more: int | None
    """If unclear: about so many more samples would tell."""
    text: str
    """The verdict in words."""


class WithinRow(Compared):
    baseline: str
    baseline_tier: str | None


class Within(TypedDict):
    schema: int
    """Version of this format: 1."""
    confidence: float
    margin: float
    run: str
    awake: bool
    comparisons: list[WithinRow]


class Difference(TypedDict):
    where: str
    """`definition`, `machine`, `dyno`, `plan`, `commit`, or an engine."""
    what: str
    """A path in the [run file](run-file.md)."""
    before: Fact
    after: Fact


class Bandwidths(TypedDict):
    before: Interval | None
    after: Interval | None


class CPUs(TypedDict):
    before: CPU
    after: CPU


class Peak(TypedDict):
    client: int | None
    server: int | None
    """Null without a server."""


class Peaks(TypedDict):
    before: Peak
    after: Peak


class BetweenRow(Compared):
    before: Interval | None
    """Throughput in the first run, whatever the metric is."""
    after: Interval | None
    bandwidth: Bandwidths
    cpu_ns_per_item: CPUs
    peak_bytes: Peaks
    """The most resident memory in the phase."""


class OneSided(TypedDict):
    phase: str
    tier: str | None
    params: Mapping[str, Value]
    engine: str


class Lost(OneSided):
    why: str
    """Why it has no number now, or `not in the run`."""


class Without(OneSided):
    why: str
    """Why, before and after."""


class Between(TypedDict):
    schema: int
    confidence: float
    margin: float
    before: str
    """The first run file."""
    after: str
    awake: bool
    in_turns: bool
    """Whether ratios are taken block by block."""
    differences: list[Difference]
    changes: list[BetweenRow]
    lost: list[Lost]
    """Rows with a number before and none after."""
    new: list[OneSided]
    limited: list[OneSided]
    """Rows with a number in both runs that are not compared: the load generator was the limit."""
    without: list[Without]
    """Rows that have no number, or not the metric, in either run."""


class Several(TypedDict):
    schema: int
    confidence: float
    """1 - 0.01 / n for n later runs: see [statistics](../explanations/statistics.md#several-runs)."""
    margin: float
    before: str
    """The first run file, with which the others are compared."""
    runs: list[object]
    """For each later run, an object with the keys of [two runs](#two-runs)."""


class GateRow(TypedDict):
    state: str
    """`slower` than the margin allows, `fine` or `unclear`."""


class Gate(TypedDict):
    changes: list[GateRow]
    passed: bool


COLUMNS = {
    "awake": "Figures with and without may not be compared.",
    "block": "Which trial of the cell, from 0.",
    "caveats": "Codes.",
    "client_cpu_ns_per_item": "CPU time per item of the throughput.",
    "doubts": "Codes.",
    "engine": "The requested engine with its options.",
    "floor": "Whether it is a null engine.",
    "metric": "What rows of the phase are compared by.",
    "param_*": "A parameter's value.",
    "samples": "Trials that the figures come from.",
    "throughput_median": "Median over the samples; `low` and `high` are the ends of its 95 % interval.",
    "tier": "Null if nothing is stored.",
    "valid": "Whether the row has a number; of a sample, whether it counts.",
    "why": "Why it has none.",
}
"""Meanings of columns whose names don't tell."""
