"""What is measured, and how it is kept: cells and samples, with the limits that the run file's decoder holds them
to. Nothing here knows an engine, a suite, a file or a screen."""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta

from dyno.contracts.decoded_types import Change, Count, Fact, Histogram, Point, Positive, Residency, Text, Used, Value
from dyno.contracts.model import SETTINGS, Tier
from dyno.contracts.value_types import MOST_POINTS

HISTOGRAMS = frozenset({"histogram", "by_kind", "by_part", "response", "late"})
"""Fields of a sample that are one, or a table of them by name."""


@dataclass(frozen=True)
class Cell:
    """Suite + engine (with its options) + one value for each parameter; the tier is part of it."""

    suite: Text
    engine: Text
    options: Mapping[Text, Value]
    """Only the options that were asked for: they are part of the row's name."""
    tier: Tier | None
    """None where nothing is stored."""
    params: Mapping[Text, Value]
    floor: bool = False
    """A null engine's cell, which no other is ranked against."""
    follows: bool = False
    """No tier was requested of a user's own server: `tier` is what the server's settings give, once a trial has read
    them, and the weakest tier of the engine before."""

    name: Text | None = None
    """The label that the user gave the row."""

    @property
    def tier_name(self) -> str | None:
        """'power'; None where nothing is stored."""
        return None if self.tier is None else self.tier.value

    @cached_property
    def asked(self) -> str:
        """The engine as it was asked for, options included: 'sqlite:journal_mode=wal'."""
        given = "+".join(text for k, v in sorted(self.options.items()) for text in _told(k, v))
        return f"{self.engine}:{given}" if given else self.engine

    @cached_property
    def label(self) -> str:
        """What people read: the user's label, or as it was asked for. `results.labels` may set a better one."""
        return self.name or self.asked

    @cached_property
    def combination(self) -> str:
        """The values of all its parameters as one: it is the same for cells that may be compared."""
        return repr(sorted(self.params.items()))


@dataclass(frozen=True, slots=True)
class Sample:
    """What one trial measured for one phase. Times are integer nanoseconds; unknown is None."""

    phase: Text
    unit: Text
    operations: Count
    """Timed calls: single operations, transactions, or 1 for a bulk phase."""
    items: Count
    """What the throughput counts, in `unit`."""
    elapsed_ns: Count
    """Time inside the timed region: from the first call to the last return, pauses taken out."""
    busy_ns: Count
    """Time inside the engine, its calls and its transactions, all clients together; the rest is the harness."""
    errors: Count
    """Operations that raised. They are in `operations`, and neither in `items` nor in the latencies."""
    ended_by: Text  # "count", "budget", "duration" or "checks"
    checked: Count
    """Answers that were compared with the dataset."""
    clients: Positive = 1
    threads: bool = False
    """Whether several clients were threads of one process, which share the interpreter's lock."""
    wall_ns: Count | None = None
    """From the first call to the last return by the wall clock, Dyno's pauses in it."""
    pause_cpu_ns: Count | None = None
    """CPU time that the engine and its server used while Dyno had stopped the clock: work that is in no figure."""
    due: Count | None = None
    """Operations that were due in the measured time, done or not: of an open loop."""
    bulk: bool = False
    bytes: Count | None = None
    """What the operations moved, where the suite tells: its rate is the bandwidth."""
    reported_by: Text | None = None
    """The outside tool, with its version, that did and measured the work."""
    first_error: Text | None = None
    histogram: Histogram | None = None
    """Service time per operation that succeeded, in ns: HdrHistogram's compressed format. None for a bulk phase."""
    slowest_at_ns: Count | None = None
    """When the slowest of these operations began, counted from the start of the phase."""
    by_kind: Mapping[Text, Histogram | None] = field(default_factory=dict)
    """The same, apart for each kind of operation, where a phase mixes kinds."""
    by_part: Mapping[Text, Histogram | None] = field(default_factory=dict)
    """Each named part of the latencies, where an operation tells them apart."""
    response: Histogram | None = None
    """Response time, from the moment at which an operation was due: of an open loop."""
    late: Histogram | None = None
    """By how much later an operation began than it would have, had the harness never been late. Of an open loop."""
    series: Annotated[tuple[Point, ...], Meta(max_length=MOST_POINTS)] = ()
    """For each second (see `series.Series`): operations, p50_ns, p99_ns."""
    temperature: Text = "none"
    """'hot' or 'cold' where that is what was reached, 'lukewarm' where it was asked for and not reached."""
    residency: Residency | None = None
    """Of a cold phase: file_bytes, resident_bytes and how they were evicted."""
    client: Used | None = None
    """What the clients' processes used during the phase: see `host.usage.Usage`."""
    server: Used | None = None
    """The same of the processes that serve the engine; None where there are none."""
    device: Used | None = None
    """Bytes read from and written to the block device of the work directory, by anybody."""
    bytes_on_disk: Count | None = None
    """Allocated blocks of the engine's files, once it had settled."""
    settled: bool | None = None
    """Whether the engine came to rest after the phase; None for a phase that does not write."""
    written_bytes: Change | None = None
    """Sent to the device by all processes, from the start of the phase until the engine had settled."""
    payload_bytes: Count | None = None
    """What the application gave to be stored."""
    facts: Mapping[Text, Fact] = field(default_factory=dict)
    """What the suite tells of the store after the phase, by name."""
    void: Text | None = None
    """Why the phase counts for nothing; None where every answer was right."""

    @property
    def per_second(self) -> float | None:
        """Items a second, all clients together; None where nothing was measured."""
        if self.void or self.elapsed_ns <= 0 or self.items <= 0:
            return None
        return self.items / self.elapsed_ns * 1e9

    @property
    def bytes_per_second(self) -> float | None:
        """Bandwidth, all clients together; None where the suite does not tell bytes, or nothing was measured."""
        if self.bytes is None or self.per_second is None:
            return None
        return self.bytes / self.elapsed_ns * 1e9


def plain(sample: Sample) -> dict[str, Any]:
    """Its fields as a run file has them: histograms in base64."""
    found = {known.name: getattr(sample, known.name) for known in fields(sample)}
    return {**found, **{name: _text(found[name]) for name in HISTOGRAMS}}


def _text(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _text(histogram) for name, histogram in found.items()}
    return None if found is None else b64encode(found).decode()


def _told(name: str, value: Value) -> Iterator[str]:
    """'cache_mib=8'; of the engine's own settings each by itself: 'set.jit=on', 'set.work_mem=8 MB'."""
    try:
        own = shlex.split(str(value)) if name == SETTINGS else []
    except ValueError:
        own = []
    if own:
        yield from (f"{name}.{each}" for each in own)
    else:
        yield f"{name}={_shown(value)}"


def _shown(value: Value) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
