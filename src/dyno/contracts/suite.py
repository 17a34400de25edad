"""The contract between a suite and the worker that runs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dyno.contracts.declarations import deferred
from dyno.contracts.engine import Engine, EngineSpec, Server
from dyno.contracts.model import Caveat, Fact, Phase, Preset, Tier, Value
from dyno.contracts.settings import Setting


class InFlight(Protocol):
    """Runs many operations at once in one process, by the event loop of a client library."""

    def begin(self, place: int, argument: Any) -> None:
        """Starts an operation in a free place, without waiting for it."""

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        """Places whose operations have ended since the last call, each with its answer, or the exception that it
        raised. Waits up to `wait_ns` for the first one."""


@dataclass
class Operations:
    """A slice of a phase's work, built before the clock starts: one call and one argument per operation.

    `calls` takes what `around` yields (None without it) and returns the operations' callables, which are used in
    rotation: one is enough. `check` takes one answer per completed operation, or a `Failure`; it returns the number
    of answers compared, and raises `Wrong`.
    """

    calls: Callable[[Any], Sequence[Callable[[Any], Any]]]
    arguments: Sequence[Any]
    check: Callable[[Sequence[Any]], int]
    weights: Sequence[int] | None = None
    """Items of each operation, which the throughput counts (the keys of an insert); None for one each."""
    kinds: Sequence[str] | None = None
    """Kind of each operation in a mixed slice: each kind also has its own latencies."""
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    """A transaction around the slice: entered and left inside the timed region, but in no operation's latency."""
    held: AbstractContextManager[Any] | None = None
    """A transaction around several slices, which share the object: entered in the timed region of the first and left
    in that of the last, but in no operation's latency. `calls` takes what it yields. Excludes `around`."""
    sizes: Sequence[int] | Callable[[Sequence[Any]], Sequence[int]] | None = None
    """Bytes that each operation moves, or a function of the answers that returns them."""
    parts: Callable[[Sequence[Any]], Mapping[str, Sequence[int]]] | None = None
    """Function of the answers: named parts of the operations' latencies in ns."""
    many: InFlight | None = None
    """Runs the operations instead of `calls`, up to `places` at once. Slices may share it."""
    places: int = 1


@dataclass(frozen=True)
class Failure:
    """The answer of an operation that raised."""

    error: str

    @staticmethod
    def of(error: Exception) -> Failure:
        return Failure(f"{type(error).__name__}: {error}")


@dataclass
class Bulk:
    """A phase of one timed call over N items. `feed` yields slices; the clock stops while it builds one.

    `call` takes a flat iterable. `check` takes its answer and the number of records that it consumed.
    """

    call: Callable[[Iterable[Any]], Any]
    feed: Iterator[Sequence[Any]]
    items_per_record: int
    check: Callable[[Any, int], int]
    moved: Callable[[Any, int], int] | None = None
    """Bytes that the call moved; takes the same arguments."""
    counted: Callable[[Any, int], int] | None = None
    """Items for the throughput, if not the records; takes the same arguments. For a call that reads, whose feed stops
    the clock while the answer is checked."""


@dataclass(frozen=True)
class Report:
    """The report of an outside tool. Times in ns."""

    tool: str
    """Name and version: 'sysbench 1.0.20'."""
    operations: int
    items: int
    elapsed_ns: int
    errors: int = 0
    first_error: str | None = None
    bytes: int | None = None
    latencies: Sequence[tuple[int, int]] = ()
    """Its histogram: values in ns with their counts."""
    by_kind: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    by_part: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    series: Sequence[Mapping[str, int]] = ()
    """As `Sample.series`."""
    cpu_ns: tuple[int, int] | None = None
    """User and system CPU time, if the tool reports it. None: measured on the processes that the call started."""
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass
class Reported:
    """A phase that an outside tool runs and measures.

    `call` takes the time budget in ns and runs the tool. `check` returns the number of answers compared in its
    report, and raises `Wrong`.
    """

    call: Callable[[int], Report]
    check: Callable[[Report], int]


Work = Operations | Bulk | Reported


class Workload(Protocol):
    """The dataset and the phases of one trial, in the worker's process. Inherit from it for the defaults."""

    def conformance(self) -> None:
        """Checks the engine briefly against a model, in a directory of its own. Raises `Wrong`."""

    def prepare(self, phase: Phase) -> None:
        """Prepares everything that the phase needs, untimed: an empty store, or a loaded one."""

    def opens(self, phase: Phase) -> bool:
        """Whether the phase measures the opening of the engine, which must not be opened before."""
        return False

    def connect(self) -> AbstractContextManager[Any]:
        """A port on the prepared store, for one client. Entered in that client's thread or process."""

    def native(self, phase: Phase) -> Callable[[Any], Any] | None:
        """What makes a port of `connect` one for native load: with an `exchange`, and operations of
        `dyno.contracts.native_load`. None if the engine's library runs the phase."""
        return None

    def release(self) -> None:
        """Closes the engine, so that client processes can open it themselves."""

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        """The client's share of the phase, slice by slice.

        Round 0 is the phase. Further rounds, each with its own inputs, are for warm-ups and durations; a phase that
        can't be repeated yields nothing for them. Slices may be requested before earlier ones of the round are done,
        and the iterator may end before that; in a phase that only reads, also before those of earlier rounds. So a
        transaction around several slices must be `held`, and not be opened here.
        """

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """Bytes that an application would have stored with that many items of a phase; None if unknown."""
        return None

    def verify(self, phase: Phase) -> int:
        """Checks the store after a phase that writes; returns the number of answers compared. Raises `Wrong`."""
        return 0

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """Facts of a phase for the run file. By default there are none."""
        return {}

    def trial_facts(self) -> Mapping[str, Fact]:
        """Facts of the whole trial, after its phases. By default there are none."""
        return {}

    def files(self) -> Iterable[Path]:
        """The suite's own files that a cold phase reads: they are evicted with the engine's, and don't count as its
        size. By default there are none."""
        return ()

    def place(self) -> Path | None:
        """A file or directory on the device whose traffic is the phase's. None for that of the work directory."""
        return None

    def engine(self) -> Engine:
        """The opened engine."""

    def caveats(self) -> Iterable[Caveat]:
        """The suite's own remarks about this engine's row."""
        return ()

    def close(self) -> None: ...


@dataclass(frozen=True)
class Column:
    """A column of a suite's own table."""

    title: str
    of: str
    """'param', 'fact', 'rate' (a phase's items per second), 'operations' (its operations per second) or 'bandwidth'
    (its bytes per second)."""
    name: str
    """Name of the parameter, fact or phase."""
    kind: str = "text"
    """Format of a figure: 'text', 'count', 'bytes', 'ratio', 'rate', 'ns' or 'bandwidth'."""


@dataclass(frozen=True)
class Layout:
    """A suite's own table: a line for each cell, with figures of several phases, for readers who compare parameters
    rather than engines. Saved in the run file."""

    columns: tuple[Column, ...]
    legend: tuple[str, ...] = ()
    """Explanations of the columns, a line each."""
    title: str = ""
    beside: bool = False
    """True: below the tables by phase. False: instead of them."""


@dataclass(frozen=True)
class Axis:
    """An axis of a chart."""

    of: str
    """'param', 'fact' or 'metric' (`stats.metric`: throughput, bandwidth, a latency)."""
    name: str
    title: str = ""
    """Title with unit; a metric has a default."""
    kind: str = "count"
    """Format of a figure: 'count', 'bytes', 'ratio', 'rate' or 'ns'."""
    scale: str = "linear"
    """'linear' or 'log'."""
    marks: tuple[str, ...] = ()
    """Names of numeric facts to mark by a line across the chart, such as the size of a cache."""


@dataclass(frozen=True)
class Curve:
    """A suite's own chart: one figure of its cells against another, with a line for each engine. Saved in the run
    file."""

    name: str
    title: str
    reading: str
    """What the chart shows and how to read it, in a sentence or two."""
    x: Axis
    y: Axis
    line: str = ""
    """Parameter with a line for each of its values."""
    point: str = ""
    """Parameter that orders the points of a line and labels them."""
    phases: tuple[str, ...] = ()
    """Phases that it is drawn for; all if empty."""


class History(Protocol):
    """An endless sequence of seeded transactions through one port. After a crash the store is compared with it: each
    transaction must be there completely or not at all."""

    def open(self, engine: Engine) -> AbstractContextManager[Any]:
        """A port on an opened engine, with everything that the first transaction needs, some of which may be there
        after a crash."""

    def commit(self, port: Any, number: int) -> None:
        """Commits transaction `number`, from 0 up, after all before it. Acknowledged when it returns."""

    def state(self, commits: int) -> Mapping[str, Any]:
        """Expected values by name after that many transactions. No two states are equal."""

    def found(self, port: Any) -> Mapping[str, Any]:
        """The state of the store. Raises `Wrong` if two ways of reading it disagree."""


@dataclass(frozen=True)
class Proof:
    """A phase that proves a tier: with these parameters, each operation is a commit, or each transaction around
    slices is."""

    phase: str
    count: str
    """Parameter with the number of commits."""
    params: Mapping[str, Value] = field(default_factory=dict)
    history: Callable[[Job], History] | None = None
    """For `dyno crash`; None if crashes can't be judged."""
    also: Proof | None = None
    """A phase that commits in another way, skipped for engines without it (Absent). The parameters of all phases are
    used together."""

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
    native: bool = False
    """Whether it has phases that native load can run."""
    proof: Proof | None = None
    """How a tier is proven; None if nothing is stored, or another suite proves it."""

    def workload(self, job: Job) -> Workload:
        """Returns the workload of a trial. By default `WORKLOAD(job)` of the module `workload` in the suite's
        package, which only workers import."""
        workload: Workload = deferred(f"{type(self).__module__}.workload:WORKLOAD")(job)
        return workload


@dataclass(frozen=True)
class Job:
    """One trial for a worker, with everything resolved, and the server that was started for it."""

    spec: EngineSpec
    """The engine through the port that the suite uses."""
    home: Path
    tier: Tier | None
    """None if nothing is stored."""
    options: Mapping[str, Value]
    params: Mapping[str, Value]
    seed: int
    clients: int
    server: Server | None = None
    sealed: Path | None = None
    """Directory of sealed copies of loaded stores, by name, for all trials of the cell; None for no copies."""

    def port(self, engine: Engine, *arguments: Any) -> Any:
        """The port on an opened engine."""
        (port,) = self.spec.ports.values()
        return port.open(engine, *arguments)

    def open(self, home: Path) -> Engine:
        """Opens the engine with its store in `home`, an existing directory."""
        served = () if self.server is None else (self.server,)
        return self.spec.opener(home, self.tier, self.options, *served)

    def remove(self, home: Path) -> None:
        """Removes the closed store in `home`, and its data on a server."""
        if self.spec.remove is not None and home.exists():
            self.spec.remove(home, self.options, self.server)
        shutil.rmtree(home, ignore_errors=True)
