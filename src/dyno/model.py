"""The words of the design as frozen types. Nothing here knows an engine, a suite, a file or a screen."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta

from dyno.values import MOST_POINTS, Change, Count, Histogram, Point, Positive, Residency, Text, Used
from dyno.values import Fact as Fact
from dyno.values import Value as Value


class UsageError(Exception):
    """The user asked for what can't be: one line that says what was wrong and what would be right."""


class Refused(Exception):
    """An engine will not do what was asked of it (a tier, an option, a number of clients)."""


class Absent(Exception):
    """A phase that makes no sense for an engine as it was asked for (a cold one of what keeps no files)."""


class Wrong(Exception):
    """An engine gave an answer that is not what the dataset says it must be. It voids the phase."""


class Tier(str, enum.Enum):
    """Durability: the least that an acknowledged write survives."""

    VOLATILE = "volatile"
    PROCESS = "process"
    POWER = "power"

    @property
    def meaning(self) -> str:
        return _TIER_MEANING[self]


TIERS: tuple[Tier | None, ...] = (None, *Tier)
"""In the order in which they are shown; None of what stores nothing."""

_TIER_MEANING = {
    Tier.VOLATILE: "lost with the process",
    Tier.PROCESS: "survives SIGKILL of the engine's process",
    Tier.POWER: "flushed to the device before it is acknowledged",
}


@dataclass(frozen=True, slots=True)
class Caveat:
    """A fairness remark that is data: it travels with the sample and prints beside its number."""

    code: Text
    text: Text


@dataclass(frozen=True)
class Phase:
    """One measured step of a suite."""

    name: str
    title: str
    unit: str
    """What is counted, singular: 'key', 'op'."""
    writes: bool
    temperature: str = "none"
    """'hot': a whole untimed round comes first. 'cold': the engine is closed and its files leave the page cache."""
    checked: str = ""
    """How its answers are checked, for `dyno list` and the docs."""
    kinds: Mapping[str, bool] = field(default_factory=dict)
    """The kinds of its operations, where it mixes some, and whether each writes."""
    parts: tuple[str, ...] = ()
    """What parts a latency has, where an operation tells them apart."""
    reported: bool = False
    """An outside tool does and measures the work; what it reports is never ranked with what Dyno timed itself."""
    metric: str = "throughput"
    """What its rows are compared by: see `stats.metric`."""
    alias: str = ""
    """A name that needs no explaining, under which it may be asked for too, and by which the overview calls it."""
    by_default: bool = True
    """Measured without being named."""

    one_call: str = ""
    """With which value of a parameter it is one call, which no rate can be asked of: 'txn=all'; 'always'."""

    def unpaced(self, params: Mapping[str, Value]) -> bool:
        """Whether no rate can be asked of it with these parameters."""
        name, equals, value = self.one_call.partition("=")
        return self.reported or (str(params.get(name)) == value if equals else bool(name))

    def told(self) -> dict[str, Any]:
        """What a run file says of it."""
        return {name: value for name, value in asdict(self).items() if name not in ("by_default", "one_call")}


@dataclass(frozen=True)
class Preset:
    """Values for a named size: parameters, samples, and the time budget of a phase in seconds."""

    params: Mapping[str, Value | tuple[Value, ...]]
    """A tuple has several values, as if each had been asked for."""
    samples: int
    budget: float
    timeout: float
    phases: tuple[str, ...] = ()
    """Those that are measured where none is asked for; none: all."""
    until: str | None = None
    """How narrow intervals are to be, as '10%', where neither samples nor times are asked for. There are as many
    blocks as `samples` says at least; None: exactly so many."""
    within: float | None = None
    """The seconds after which no further block is begun."""


SETTINGS = "set"
"""The option that has settings of the engine's own: see `servers.given`."""


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
        """What people read: as it was asked for, and with its version where a run that was read has several."""
        return self.asked

    @cached_property
    def combination(self) -> str:
        """The values of all its parameters as one: it is the same for cells that may be compared."""
        return repr(sorted(self.params.items()))


@dataclass(frozen=True)
class Trial:
    """One execution of a cell: its place in the run, and nothing of its result."""

    cell: int
    block: int


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
    """Operations that raised. They are in `operations` and in the latencies, and not in `items`."""
    ended_by: Text  # "count" or "budget"
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
    """Operations that were due in the measured time: of an open loop."""
    bulk: bool = False
    bytes: Count | None = None
    """What the operations moved, where the suite tells: its rate is the bandwidth."""
    reported_by: Text | None = None
    """The outside tool, with its version, that did and measured the work."""
    first_error: Text | None = None
    histogram: Histogram | None = None
    """Service time per operation, in ns: HdrHistogram's interchange format. None for a bulk phase."""
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
