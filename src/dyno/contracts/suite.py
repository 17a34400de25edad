"""The contract between a suite and the worker that runs it. No suite, engine or clock may be put here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dyno.contracts.engine import Engine, EngineSpec, Server
from dyno.contracts.model import Caveat, Fact, Phase, Preset, Tier, Value
from dyno.contracts.settings import Setting


class InFlight(Protocol):
    """What has many operations under way at once in one process, by an event loop of its client library's."""

    def begin(self, place: int, argument: Any) -> None:
        """Sets an operation going at a place that is free, and does not wait for it."""

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        """The places whose operations have ended since it was asked, each with its answer; an exception is that of an
        operation that raised. Waits for the first to end, but no longer than `wait_ns`."""


@dataclass
class Operations:
    """A slice of a phase's work, built before the clock starts: one call and one argument per operation.

    `calls` is given what `around` yields (None without it), and returns the callables of the operations, which are
    taken in turn and again from the first: one will do for all. `check` gets one answer per operation done, a
    `Failure` where it raised; it returns how many answers it compared, and raises `Wrong`.
    """

    calls: Callable[[Any], Sequence[Callable[[Any], Any]]]
    arguments: Sequence[Any]
    check: Callable[[Sequence[Any]], int]
    weights: Sequence[int] | None = None
    """What the throughput counts for each operation (the keys of an insert); None for one each."""
    kinds: Sequence[str] | None = None
    """What kind each operation is, where a slice mixes kinds: their latencies are kept apart as well."""
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    """A transaction that holds the slice: entered and left inside the timed region, in nobody's latency."""
    held: AbstractContextManager[Any] | None = None
    """A transaction that holds several slices, which all name the same object: entered in the timed region of the
    first of them and left in that of the last, in nobody's latency. What it yields goes to `calls` in place of what
    `around` yields; a slice has one or the other."""
    sizes: Sequence[int] | Callable[[Sequence[Any]], Sequence[int]] | None = None
    """How many bytes each operation moves; or, where only the answers tell, a callable of these."""
    parts: Callable[[Sequence[Any]], Mapping[str, Sequence[int]]] | None = None
    """The named parts of each operation's latency in ns, as its answers tell them."""
    many: InFlight | None = None
    """What does them in place of `calls`, up to `places` at once, also those of several slices that name the same."""
    places: int = 1


@dataclass(frozen=True)
class Failure:
    """Stands in the answers for an operation that raised."""

    error: str

    @staticmethod
    def of(error: Exception) -> Failure:
        return Failure(f"{type(error).__name__}: {error}")


@dataclass
class Bulk:
    """A phase that is one timed call over N items. `feed` yields slices; the clock stops while it builds one.

    `call` gets one flat iterable. `check` gets its answer and the number of records that it took.
    """

    call: Callable[[Iterable[Any]], Any]
    feed: Iterator[Sequence[Any]]
    items_per_record: int
    check: Callable[[Any, int], int]
    moved: Callable[[Any, int], int] | None = None
    """How many bytes the call moved, of its answer and the number of records."""
    counted: Callable[[Any, int], int] | None = None
    """What the throughput counts, of its answer and the number of records, where it is not the records: what a call
    that reads has found, say, with a feed that stops the clock while that is looked at."""


@dataclass(frozen=True)
class Report:
    """What an outside tool says that it did, and how long it took. Times in ns."""

    tool: str
    """With its version: 'sysbench 1.0.20'."""
    operations: int
    items: int
    elapsed_ns: int
    errors: int = 0
    first_error: str | None = None
    bytes: int | None = None
    latencies: Sequence[tuple[int, int]] = ()
    """Its histogram: each value in ns, and how often."""
    by_kind: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    by_part: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    series: Sequence[Mapping[str, int]] = ()
    """As `Sample.series`."""
    cpu_ns: tuple[int, int] | None = None
    """User and system CPU time, where the tool tells. None: of the processes that the call started and waited for."""
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass
class Reported:
    """A phase, whole, that an outside tool does and measures.

    `call` is given the time budget in ns and runs the tool. `check` looks at what it reported; it returns how many
    answers it compared, and raises `Wrong`.
    """

    call: Callable[[int], Report]
    check: Callable[[Report], int]


Work = Operations | Bulk | Reported


class Workload(Protocol):
    """The dataset and the phases of one trial, in the worker's process. A class that inherits from it has the usual
    answer of each method that has one."""

    def conformance(self) -> None:
        """A brief model-based check of the engine in a directory of its own. Raises `Wrong`."""

    def prepare(self, phase: Phase) -> None:
        """Everything that the phase needs, untimed: a store that is empty, or loaded."""

    def opens(self, phase: Phase) -> bool:
        """Whether the engine is opened in the phase's own time, and so not asked what it is until that is over."""
        return False

    def connect(self) -> AbstractContextManager[Any]:
        """A port on the prepared store, for one client. Entered in that client's thread or process."""

    def release(self) -> None:
        """Closes the engine, so that client processes can open it themselves."""

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        """The client's share of the phase, slice by slice.

        Round 0 is the phase. Further rounds, each with inputs of its own, are asked for until a duration is over,
        and beforehand to warm up; a phase that can't be done again yields nothing for them. A slice may be asked for
        before those ahead of it in its round have been done, and the iterator may end before they are; of a phase
        that does not write, also before those of the rounds ahead. What slices share is `held`, and not open in here.
        """

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """What an application gave to be stored, in bytes, in so many items of a phase; None where unknown."""
        return None

    def verify(self, phase: Phase) -> int:
        """Looks at the store after a phase that writes; returns how many answers it compared. Raises `Wrong`."""
        return 0

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """What is to be told of the store after a phase, beside its times; nothing as a rule."""
        return {}

    def trial_facts(self) -> Mapping[str, Fact]:
        """What is to be told of the trial as a whole, once its phases are over; nothing as a rule."""
        return {}

    def files(self) -> Iterable[Path]:
        """Files of the suite's own, which no engine names, and which a cold phase reads: they leave the page cache
        with the engine's, and are in no engine's size. None as a rule."""
        return ()

    def place(self) -> Path | None:
        """A file or a directory on the device whose traffic is the phase's; None for that of the work directory."""
        return None

    def engine(self) -> Engine:
        """The opened engine: for its version, settings, files and caveats."""

    def caveats(self) -> Iterable[Caveat]:
        """The suite's own remarks on what this engine was asked."""
        return ()

    def close(self) -> None: ...


@dataclass(frozen=True)
class Column:
    """A column of a suite's own table: what of a cell stands in it."""

    title: str
    of: str
    """'param', 'fact', 'rate' (what a phase counts, a second), 'operations' (its operations a second) or 'bandwidth'
    (its bytes a second)."""
    name: str
    """Of the parameter, of the fact or of the phase."""
    kind: str = "text"
    """How a figure is written: 'text', 'count', 'bytes', 'ratio', 'rate', 'ns' or 'bandwidth'."""


@dataclass(frozen=True)
class Layout:
    """A table of a suite's own: a line for each cell, with figures of several phases, where its readers look for a
    parameter rather than for an engine. It travels in the run file."""

    columns: tuple[Column, ...]
    legend: tuple[str, ...] = ()
    """What its columns mean, in a line each."""
    title: str = ""
    """What stands above it."""
    beside: bool = False
    """Whether it stands under the tables by phase, and not in their place."""


@dataclass(frozen=True)
class Axis:
    """What of a cell stands along an axis of a chart."""

    of: str
    """'param', 'fact' or 'metric' (`stats.metric`: throughput, bandwidth, a latency)."""
    name: str
    title: str = ""
    """With its unit; what is known of a metric by itself need not be said."""
    kind: str = "count"
    """How a figure is written: 'count', 'bytes', 'ratio', 'rate' or 'ns'."""
    scale: str = "linear"
    """'linear' or 'log'."""
    marks: tuple[str, ...] = ()
    """Facts, numbers, that are marked on it by a line across, each by its name: the size of a cache, say."""


@dataclass(frozen=True)
class Curve:
    """A chart of a suite's own: one figure of its cells against another, a line for each engine. It travels in the
    run file."""

    name: str
    title: str
    reading: str
    """What it shows and how to read it, in a sentence or two."""
    x: Axis
    y: Axis
    line: str = ""
    """A parameter, of which each value has a line of its own."""
    point: str = ""
    """A parameter, which orders the points of a line and stands beside each."""
    phases: tuple[str, ...] = ()
    """Those that it is drawn for; none: all."""


class History(Protocol):
    """Transactions without an end, which follow from a seed, through one port: what is found in a store after a crash
    is held against them. A transaction is whole or not there."""

    def open(self, engine: Engine) -> AbstractContextManager[Any]:
        """A port on an opened engine, with what the first transaction needs: also where a crash has left some of
        that, or all."""

    def commit(self, port: Any, number: int) -> None:
        """Transaction `number`, from 0 up; all before it are there. Acknowledged when it returns."""

    def state(self, commits: int) -> Mapping[str, Any]:
        """What there is after so many transactions, by name: of no two numbers the same."""

    def found(self, port: Any) -> Mapping[str, Any]:
        """What the store holds, in the same words. Raises `Wrong` where two ways of reading it do not agree."""


@dataclass(frozen=True)
class Proof:
    """A phase of which every operation is one commit, or every transaction that holds slices is, when the parameters
    are these: what shows that a tier holds."""

    phase: str
    count: str
    """The parameter that says how many commits there are."""
    params: Mapping[str, Value] = field(default_factory=dict)
    history: Callable[[Job], History] | None = None
    """What a crash is judged by: see `dyno crash`. None where nothing is."""
    also: Proof | None = None
    """Another phase, which commits in a way of its own. Whichever an engine does not have (Absent) is left out. The
    parameters are those of all of them together."""

    def chain(self) -> Iterator[Proof]:
        yield self
        if self.also is not None:
            yield from self.also.chain()


class Suite(Protocol):
    """A family of experiments that answers one question. Inherit from it for the defaults."""

    name: str
    title: str
    ports: tuple[str, ...]
    engines: tuple[str, ...] = ()
    """Engines that take part without being named; if empty, all that run here without a server."""
    params: tuple[Setting, ...]
    presets: Mapping[str, Preset]
    phases: tuple[Phase, ...]
    layout: Layout | None = None
    """The suite's own table."""
    charts: tuple[Curve, ...] = ()
    """The suite's own charts, beside those that every run has."""
    proof: Proof | None = None
    """How a tier is proven; None if nothing is stored, or another suite proves it."""

    def workload(self, job: Job) -> Workload: ...


@dataclass(frozen=True)
class Job:
    """What a worker is told: one trial, with everything resolved, and the server that was started for it."""

    spec: EngineSpec
    """As it is through the port that the suite measures it by."""
    home: Path
    tier: Tier | None
    """None where nothing is stored."""
    options: Mapping[str, Value]
    params: Mapping[str, Value]
    seed: int
    clients: int
    server: Server | None = None
    sealed: Path | None = None
    """Where the trials of the cell keep loaded stores, by name, to begin with a copy; None: nowhere."""

    def port(self, engine: Engine, *arguments: Any) -> Any:
        """The port on an opened engine."""
        (port,) = self.spec.ports.values()
        return port.open(engine, *arguments)

    def open(self, home: Path) -> Engine:
        """The engine with its store in `home`, a directory that exists."""
        served = () if self.server is None else (self.server,)
        return self.spec.opener(home, self.tier, self.options, *served)

    def remove(self, home: Path) -> None:
        """The store in `home`, which is closed, and what a server has of it."""
        if self.spec.remove is not None and home.exists():
            self.spec.remove(home, self.options, self.server)
        shutil.rmtree(home, ignore_errors=True)
