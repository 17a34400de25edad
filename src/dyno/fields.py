"""The measured quantities: one row each.

The sample, the merging of clients' tallies, the keys of `dyno show --json`, the columns of CSV and Parquet and
docs/reference/measured-quantities.md follow from this table. The docstring below a row is its description there.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Annotated, Any

from msgspec import Meta

from dyno.contracts.decoded_types import (
    Change,
    Count,
    Fact,
    Histogram,
    Machine,
    Point,
    Positive,
    Residency,
    Text,
    Used,
)
from dyno.contracts.value_types import MOST_POINTS

# How the values of clients that run side by side become one: see `measure.tally`.
SUM = "sum"
SUMS = "sums by name"
LONGEST = "longest"
FIRST = "first"
ANY = "any"
SUM_OF_ALL = "sum, null if one is unknown"
REASON = "the strongest reason"
SLOWEST = "slowest"
TOGETHER = "together"
# How the values of a row's samples become one: see `stats.summary`.
TOTAL = "sum"
MEDIAN = "median"
MEDIAN_OF_KNOWN = "median of the known"
NAMES = "all names"
PERCENTILES, EACH_PERCENTILES = "percentiles together", "percentiles of each, together"
MEDIANS = "median of each"
SHARED_MEDIANS = "median of each that all have"
AGREED = "lukewarm if they differ"
WORST_SHARE = "worst share in percent"
EACH = "each"
# Where a quantity is shown: `dyno show --json`, and the tables of CSV and Parquet.
JSON = "json"
CELLS = "cells"
SAMPLES = "samples"
EVERYWHERE = (JSON, CELLS, SAMPLES)
TEXT = "text"
INTEGER = "integer"
NUMBER = "number"
BOOLEAN = "boolean"
COLUMN_TYPES = {"Count": INTEGER, "Positive": INTEGER, "Change": INTEGER, "Text": TEXT, "bool": BOOLEAN}
LATENCIES = ("p50", "p90", "p95", "p99", "p999", "max")
USED = (
    *("user_ns", "system_ns", "voluntary_switches", "involuntary_switches", "major_faults"),
    *("asked_bytes", "read_bytes", "written_bytes", "core_wait_ns"),
    *("minor_faults", "read_calls", "write_calls", "device_wait_ns"),
)


@dataclass(frozen=True)
class Field:
    """One measured quantity: a row of the table."""

    merge: str = ""
    """How the values of several clients become one; empty: not measured by clients."""
    summary: str = ""
    """How the values of several samples become one; empty: they don't."""
    shown: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns for the parts of a value that is a table: key of the part by column."""
    tally: str = ""
    """Attribute of a client's Tally; empty: `name`."""
    key: str = ""
    """Key in `dyno show --json`; empty: `name`."""
    name: str = ""
    """Attribute of Sample, and key in the run file."""
    type: str = ""
    """Annotation of the attribute."""

    def columns_of(self, table: str) -> dict[str, str]:
        """Columns in a table of CSV and Parquet, with their types."""
        if table not in self.shown:
            return {}
        return dict.fromkeys(self.columns, INTEGER) or {self.name: COLUMN_TYPES[self.type.partition(" | ")[0]]}

    def figures(self, value: Any) -> dict[str, object]:
        """A value, by column."""
        if not self.columns:
            return {self.name: value}
        if value is not None:
            return {column: value.get(part) for column, part in self.columns.items()}
        return {}


def declare_quantity(default: Any = MISSING, factory: Any = MISSING, **declared: Any) -> Any:
    """A row of the table. Without a default, every sample of a run file must have it."""
    row = {"field": Field(**declared)}
    if default is factory:
        return field(metadata=row)
    return field(default=default, default_factory=factory, metadata=row)


def _latencies(stem: str) -> dict[str, str]:
    return {f"{stem}_{part}_ns": part for part in LATENCIES}


@dataclass(kw_only=True, slots=True)
class Counted:
    """What each client of a phase counts, and all of them together. Times are whole nanoseconds; unknown is None."""

    operations: Count = declare_quantity(merge=SUM, summary=TOTAL, shown=EVERYWHERE)
    """Timed calls: operations, transactions, or 1 for each client and round of a bulk phase."""
    items: Count = declare_quantity(merge=SUM, summary=MEDIAN, shown=EVERYWHERE)
    """What the throughput counts, in `unit`; failed operations are left out."""
    elapsed_ns: Count = declare_quantity(merge=LONGEST, summary=MEDIAN, shown=EVERYWHERE)
    """Time inside the timed region, from the first call to the last return without Dyno's pauses; waiting for
    operations that are due is included. For several clients of a closed loop: the time of all operations at the rate
    that was reached while all clients were at work, if at least half of the operations ended in such times."""
    busy_ns: Count = declare_quantity(merge=SUM, shown=(SAMPLES,))
    """Time inside the engine's calls and transactions; the rest is the harness."""
    errors: Count = declare_quantity(merge=SUM, shown=(SAMPLES,))
    """Operations that raised: in `operations`, but neither in `items` nor in the latencies."""
    ended_by: Text = declare_quantity(merge=REASON, shown=(SAMPLES,))
    """Why the phase ended: `count` (all operations were done), `budget`, `duration` or `checks` (the time for checks
    of answers was over; every operation counted was checked)."""
    checked: Count = declare_quantity(merge=SUM)
    """Answers that were compared with the dataset."""
    wall_ns: Count | None = declare_quantity(None, merge=LONGEST, summary=MEDIAN, shown=EVERYWHERE)
    """From the first call to the last return by the wall clock, with Dyno's pauses; null in a file that lacks it."""
    due: Count | None = declare_quantity(None, merge=SUM, summary=MEDIAN, shown=EVERYWHERE)
    """Operations that were due in the measured time, done or not; null in a closed loop."""
    judged: Count | None = declare_quantity(None, merge=SUM, shown=(SAMPLES,))
    """In a search for a capacity: of the operations due, those that were judged by its limits: all but those of the
    warm-up and of the first fifth after it."""
    broken: Mapping[Text, Count] = declare_quantity(merge=SUMS, factory=dict)
    """Operations among these that broke each limit: failed, answered too late, or never begun."""
    bulk: bool = declare_quantity(False, merge=ANY, shown=(SAMPLES,))
    """Whether the phase was one timed call over all items."""
    bytes: Count | None = declare_quantity(None, merge=SUM, summary=MEDIAN, shown=EVERYWHERE)
    """Bytes that the operations moved, from which the bandwidth follows; null if the suite doesn't count them."""
    reported_by: Text | None = declare_quantity(None, merge=FIRST, summary=NAMES, shown=EVERYWHERE)
    """The outside tool, with its version, that did and measured the work, which is in no ratio with what Dyno timed;
    null for what Dyno timed itself."""
    first_error: Text | None = declare_quantity(None, merge=FIRST)
    """The first exception."""
    void: Text | None = declare_quantity(None, merge=FIRST)
    """The wrong answer for which the phase counts for nothing; null if every answer was right."""


@dataclass(kw_only=True, slots=True)
class Sample(Counted):
    """What one trial measured for one phase."""

    phase: Text = declare_quantity()
    """The phase."""
    unit: Text = declare_quantity(shown=(SAMPLES,))
    """What is counted: `key`, `op`."""
    clients: Positive = declare_quantity(1)
    """Clients at work."""
    threads: bool = declare_quantity(False)
    """Whether several clients were threads of one process, which share the interpreter's lock."""
    load: Text | None = declare_quantity(None, shown=(SAMPLES,))
    """What loaded the server: `library`, the engine's client library, or `native`, Dyno's own loop; null without a
    server, for the work of an outside tool, and in a file that lacks it."""
    load_processes: Positive | None = declare_quantity(None, shown=(SAMPLES,))
    """Processes that loaded the server; null where `load` is."""
    least_served: Count | None = declare_quantity(None)
    """Operations that no client of the least served tenth exceeded; null for one client, for the work of an outside
    tool, and in a file that lacks it. Clients without any work don't count."""
    fair_share: Count | None = declare_quantity(None)
    """Operations of a client, had all been served alike: the larger of mean and median; null where `least_served`
    is."""
    pause_cpu_ns: Count | None = declare_quantity(None, summary=MEDIAN, shown=EVERYWHERE)
    """CPU time that the engine and its server used while Dyno had stopped the clock, which is in no figure."""
    histogram: Histogram | None = declare_quantity(
        None,
        merge=TOGETHER,
        summary=PERCENTILES,
        shown=EVERYWHERE,
        columns=_latencies("latency"),
        tally="latency",
        key="latency_ns",
    )
    """Service times of operations that succeeded, as are all other latencies: HdrHistogram's compressed interchange
    format, as base64; null for a bulk phase."""
    slowest_at_ns: Count | None = declare_quantity(None, merge=SLOWEST, tally="slowest")
    """When the slowest of these operations began, counted from the start of the phase; null if Dyno timed none."""
    by_kind: Mapping[Text, Histogram | None] = declare_quantity(
        merge=TOGETHER, summary=EACH_PERCENTILES, shown=(JSON,), factory=dict, key="latency_by_kind_ns"
    )
    """A histogram for each kind of operation; empty for a phase of one kind."""
    by_part: Mapping[Text, Histogram | None] = declare_quantity(
        merge=TOGETHER, summary=EACH_PERCENTILES, shown=(JSON,), factory=dict, key="latency_by_part_ns"
    )
    """A histogram for each named part of the latencies; empty if operations have no parts."""
    by_machine: Mapping[Text, Histogram | None] = declare_quantity(
        merge=TOGETHER, summary=EACH_PERCENTILES, shown=(JSON,), factory=dict, key="latency_by_machine_ns"
    )
    """A histogram for each machine, by its host; empty if all clients ran on this machine."""
    machines: Mapping[Text, Machine] = declare_quantity(factory=dict)
    """Each machine's clients and their processes, usable cores, operations, elapsed and CPU time, p99 of lateness and
    of response times, round trip to the server, and how far its clock was ahead and moved meanwhile."""
    response: Histogram | None = declare_quantity(
        None, merge=TOGETHER, summary=PERCENTILES, shown=EVERYWHERE, columns=_latencies("response"), key="response_ns"
    )
    """Response times, from when an operation was due: a histogram; null in a closed loop."""
    late: Histogram | None = declare_quantity(
        None, merge=TOGETHER, summary=PERCENTILES, shown=(JSON, SAMPLES), columns=_latencies("late"), key="late_ns"
    )
    """By how much later operations began than they would have, had Dyno never been late: a histogram; null in a
    closed loop."""
    series: Annotated[tuple[Point, ...], Meta(max_length=MOST_POINTS)] = declare_quantity(
        (), merge=TOGETHER, summary=EACH, shown=(JSON,)
    )
    """The phase over its measured time: a point for each interval in which an operation ended; empty for a bulk
    phase, and if all ended in the first."""
    temperature: Text = declare_quantity("none", summary=AGREED, shown=EVERYWHERE)
    """`hot` or `cold`: proven; `lukewarm`: not proven hot (or cold) as requested; `none`: neither was requested, or
    it is a null engine's cold phase."""
    residency: Residency | None = declare_quantity(
        None,
        summary=WORST_SHARE,
        shown=(JSON, SAMPLES),
        columns={"file_bytes": "file_bytes", "resident_bytes": "resident_bytes"},
        key="resident_percent",
    )
    """For a cold phase: data of the trial's files, how much of it was in the page cache after the eviction, and how
    it was evicted."""
    client: Used | None = declare_quantity(
        None,
        merge=SUM,
        summary=MEDIANS,
        shown=(JSON, SAMPLES),
        columns={f"client_{part}": part for part in USED},
        tally="usage",
    )
    """What the clients' processes used during the phase; CPU time and waiting are without Dyno's pauses."""
    server: Used | None = declare_quantity(
        None, summary=MEDIANS, shown=(JSON, SAMPLES), columns={f"server_{part}": part for part in USED}
    )
    """The same of the processes that serve the engine, and their descendants; null if there are none."""
    client_peak_bytes: Count | None = declare_quantity(
        None, merge=SUM_OF_ALL, summary=MEDIAN, shown=EVERYWHERE, tally="peak_bytes"
    )
    """The most resident memory that the clients' processes had during the phase, each at its own peak. It includes
    Dyno's own memory and what earlier phases left. Pages that processes share count in each. If operations are
    programs to run, the largest program's. Null if the kernel can't measure it phase by phase, for the work of an
    outside tool, and in a file that lacks it."""
    server_peak_bytes: Count | None = declare_quantity(None, summary=MEDIAN, shown=EVERYWHERE)
    """The same of the processes that serve the engine, and of their descendants at the end of the phase; null without
    a server, for a user's own, and if the kernel can't measure it."""
    device: Used | None = declare_quantity(
        None, shown=(SAMPLES,), columns={f"device_{part}": part for part in ("read_bytes", "written_bytes")}
    )
    """Read from and written to the block device of the work directory during the phase, by anybody."""
    bytes_on_disk: Count | None = declare_quantity(None, summary=MEDIAN_OF_KNOWN, shown=EVERYWHERE)
    """Allocated bytes of the engine's files, once it had settled; null for an engine without files."""
    settled: bool | None = declare_quantity(None)
    """Whether the engine came to rest within 10 s after the phase; null for a phase that does not write."""
    written_bytes: Change | None = declare_quantity(None, shown=(SAMPLES,))
    """To be sent to the device by clients and server, from before the phase until the engine had settled."""
    payload_bytes: Count | None = declare_quantity(None, shown=(SAMPLES,))
    """What an application gave to be stored in the phase's items; null if the suite doesn't count it."""
    maintenance: Mapping[Text, Count | None] = declare_quantity(factory=dict)
    """In a search for a capacity: how often the engine did its occasional work during the phase, by name, such as
    `checkpoint`; null if it can't be known. Empty for a phase that does not write."""
    counters: Mapping[Text, Count] = declare_quantity(summary=SHARED_MEDIANS, shown=(JSON,), factory=dict)
    """By how much the engine's own counters grew from the start of the phase to its end, by
    name. Those of a server include what all its clients did. Empty for an engine without counters, if they could not
    be read, and if the clients opened an embedded engine in processes of their own; without those that shrank."""
    facts: Mapping[Text, Fact] = declare_quantity(factory=dict)
    """The suite's facts about the store after the phase, by name; empty for most suites."""

    @property
    def per_second(self) -> float | None:
        """Items a second, all clients together; None if nothing was measured."""
        if self.void or self.elapsed_ns <= 0 or self.items <= 0:
            return None
        return self.items / self.elapsed_ns * 1e9

    @property
    def bytes_per_second(self) -> float | None:
        """Bandwidth, all clients together; None if bytes are not counted, or nothing was measured."""
        if self.bytes is None or self.per_second is None:
            return None
        return self.bytes / self.elapsed_ns * 1e9


FIELDS: tuple[Field, ...] = tuple(
    replace(row, name=each.name, type=str(each.type), tally=row.tally or each.name, key=row.key or each.name)
    for each in fields(Sample)
    if isinstance(row := each.metadata.get("field"), Field)
)
COUNTED = frozenset(each.name for each in fields(Counted))
HISTOGRAMS = frozenset(each.name for each in FIELDS if "Histogram" in each.type)
"""Fields of a sample that are a histogram, or a table of histograms by name."""


def plain(sample: Sample) -> dict[str, object]:
    """The fields of a sample as the run file has them: histograms in base64."""
    values = {each.name: getattr(sample, each.name) for each in FIELDS}
    return {**values, **{name: _text(values[name]) for name in HISTOGRAMS}}


def _text(value: Mapping[str, bytes | None] | bytes | None) -> object:
    if isinstance(value, Mapping):
        return {name: _text(histogram) for name, histogram in value.items()}
    if value is None:
        return None
    return b64encode(value).decode()
