"""The contract between a suite and the worker that runs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from dyno.contracts.declarations import defer_import
from dyno.contracts.engine import Engine, EngineSpec, Server
from dyno.contracts.model import VERSION, Caveat, Fact, Phase, Preset, Tier, Value
from dyno.contracts.presentation import Curve, InFile, Layout
from dyno.contracts.settings import Setting

IN_FLIGHT = "inflight"
"""Parameter of suites whose clients have several operations in flight."""


class InFlight(Protocol):
    """Runs many operations at once in one process, on the event loop of a client library."""

    def begin(self, place: int, argument: Any) -> None:
        """Starts an operation in a free place, and does not wait for its end."""

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        """Returns the places whose operations have ended since the last call. Each comes with its answer, or with the
        exception that it raised. Waits up to `wait_ns` until the first operation ends."""


class RanInFlight(NamedTuple):
    """Operations that were run at once, in the order in which they began. Moments are int64 in ns of
    `time.perf_counter_ns`."""

    starts: Any
    ends: Any
    freed: Any
    """When the place of each operation had become free; 0 if it was free from the start."""
    over: int
    """When the last operation had ended."""
    full: bool
    """Whether the answers filled the memory before all operations began."""
    decode: Callable[[], Sequence[Any]]
    """Function that returns the answers. Called once, while the clock stands still."""


@runtime_checkable
class NativeInFlight(InFlight, Protocol):
    """Runs many operations at once by a native loop, instead of the loop in Python that calls `begin` and `ended`."""

    def prepare(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """Returns the operations' arguments as `run` takes them. Called before the clock starts."""

    def run(
        self, places: int, arguments: Sequence[Any], due: Sequence[int] | None, deadline_ns: int, most_bytes: int
    ) -> RanInFlight:
        """Keeps up to `places` operations in flight, begins none after the deadline or before it is due, and waits
        for those that have begun. An answer is an exception if the operation failed."""


@dataclass
class Operations:
    """A slice of a phase's work, built before the clock starts: one call and one argument per operation.

    `calls` takes the value that `around` yields (None without `around`), and returns the operations' callables. They
    are used in rotation, so a single callable is enough. `check` takes one answer per completed operation, which is a
    `Failure` if the operation raised. It returns the number of compared answers, and raises `Wrong`.
    """

    calls: Callable[[Any], Sequence[Callable[[Any], Any]]]
    arguments: Sequence[Any]
    check: Callable[[Sequence[Any]], int]
    weights: Sequence[int] | None = None
    """Items of each operation, which the throughput counts, such as the keys of an insert. None: one item each."""
    kinds: Sequence[str] | None = None
    """Kind of each operation in a mixed slice. Each kind also gets its own latencies."""
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    """A transaction around the slice. Entering and leaving it is timed, but belongs to no operation's latency."""
    held: AbstractContextManager[Any] | None = None
    """A transaction around several slices, which share this object. It is entered in the timed region of the first
    slice and left in that of the last, but belongs to no operation's latency. `calls` takes the value that it yields.
    Excludes `around`."""
    sizes: Sequence[int] | Callable[[Sequence[Any]], Sequence[int]] | None = None
    """Bytes that each operation moves, or a function that computes them from the answers."""
    parts: Callable[[Sequence[Any]], Mapping[str, Sequence[int]]] | None = None
    """Function that takes the answers, and returns the named parts of the operations' latencies in ns."""
    many: InFlight | None = None
    """Runs the operations instead of `calls`, up to `places` at once. Several slices may share one object."""
    places: int = 1
    endless: bool = False
    """True if the round ends only with its time, which then raises no doubt."""


@dataclass(frozen=True)
class Failure:
    """The answer of an operation that raised."""

    error: str

    @staticmethod
    def from_error(error: Exception) -> Failure:
        return Failure(f"{type(error).__name__}: {error}")


def check_each(
    inputs: Iterable[object], check: Callable[[Any, Any], int], judged: bool = True
) -> Callable[[Sequence[object]], int]:
    """Returns a check for `Operations` that adds up `check(input, answer)` over the operations that did not raise.
    `judged`: False for a null engine, whose answers are not compared."""

    def check_all(answers: Sequence[object]) -> int:
        pairs = zip(inputs, answers if judged else (), strict=False)
        return sum(check(given, answer) for given, answer in pairs if type(answer) is not Failure)

    return check_all


@dataclass
class Bulk:
    """A phase of one timed call over many items. `feed` yields slices; the clock stops while it builds one. `call`
    takes a flat iterable. `check` takes the call's answer and the number of records that the call consumed."""

    call: Callable[[Iterable[Any]], Any]
    feed: Iterator[Sequence[Any]]
    items_per_record: int
    check: Callable[[Any, int], int]
    counted: Callable[[Any, int], int] | None = None
    """Returns the items for the throughput, if these are not the records; takes the same arguments as `check`. It is
    for a call that reads, whose feed stops the clock while the answer is checked."""


@dataclass(frozen=True)
class Report:
    """The report of an outside tool, with times in ns."""

    tool: str
    """Name and version of the tool: 'sysbench 1.0.20'."""
    operations: int
    items: int
    elapsed_ns: int
    errors: int = 0
    first_error: str | None = None
    bytes: int | None = None
    latencies: Sequence[tuple[int, int]] = ()
    """The tool's latency histogram: values in ns with their counts."""
    by_kind: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    by_part: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    series: Sequence[Mapping[str, int | None]] = ()
    """Points like those of `Sample.series`. `p50_ns` is None if the tool doesn't report it."""
    cpu_ns: tuple[int, int] | None = None
    """User and system CPU time, if the tool reports it. If None, Dyno measures the processes that the call
    started."""
    used: Mapping[str, int | None] = field(default_factory=dict)
    """Other counters of the processes that did the work, by their names in `host.usage.Usage`; None if unknown."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    peak_bytes: int | None = None
    """Largest resident memory of the processes that did the work, if it is known."""
    own: bool = False
    """Whether the tool is a part of Dyno, whose figures are like those that the loop measures."""


@dataclass
class Reported:
    """A phase that an outside tool, or a process of its own, runs and measures. `call` takes the time budget in ns,
    and runs the tool. `check` checks the tool's report. It returns the number of compared figures, and raises
    `Wrong`."""

    call: Callable[[int], Report]
    check: Callable[[Report], int]


Work = Operations | Bulk | Reported


P = TypeVar("P")
Opened = Callable[..., AbstractContextManager[P]]
"""Opens the port P on a new or existing store, by the store's name and further arguments of the port."""
Check = Callable[..., None]
"""A conformance check, called with an `Opened` and the tier (None if nothing is stored). Raises `Wrong`."""


def by_name(*checks: Check) -> dict[str, Check]:
    return {check.__name__: check for check in checks}


class Workload(Protocol):
    """The dataset and the phases of one trial, in the worker's process. Inherit from this class for the defaults, and
    from classes of `dyno.contracts.roles` for what only some workloads can do."""

    def conformance(self) -> None:
        """Checks the engine briefly against a model, in a separate directory. Raises `Wrong`. Called in a thorough
        trial, but not for a null engine."""

    def prepare(self, phase: Phase) -> None:
        """Prepares the store for the phase, untimed. Depending on the phase, the store is empty or loaded."""

    def connect(self) -> AbstractContextManager[object]:
        """Opens a port on the prepared store, for one client. Entered in that client's thread or process."""

    def release(self) -> None:
        """Closes the engine, so that client processes can open it themselves."""

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        """Yields the client's share of the phase, slice by slice.

        Round 0 is the phase. Further rounds, each with its own inputs, are for warm-ups and durations; a phase that
        can't be repeated yields nothing for them. Slices may be requested before earlier slices of the round are
        done, and the iterator may end before they are done. In a phase that only reads, slices may even be requested
        before those of earlier rounds are done. So a transaction around several slices must be `held`, rather than
        opened here.
        """

    def verify(self, phase: Phase) -> int:
        """Checks the store after a phase that writes; returns the number of compared answers. Raises `Wrong`. Not
        called for a null engine. May check a sample if the trial is not thorough."""
        return 0

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """Returns facts of a phase for the run file. The default returns none."""
        return {}

    def engine(self) -> Engine:
        """Returns the opened engine."""

    def caveats(self) -> Iterable[Caveat]:
        """Returns the suite's own remarks about this engine's row."""
        return ()

    def close(self) -> None: ...


class History(Protocol):
    """An endless sequence of seeded transactions through one port. After a crash the store is compared with the
    sequence: each transaction must be there completely or not at all."""

    def open(self, engine: Engine) -> AbstractContextManager[object]:
        """Opens a port on an opened engine, and creates everything that the first transaction needs. After a crash,
        some of that may already exist."""

    def commit(self, port: Any, number: int) -> None:
        """Commits transaction `number`, counted from 0, after all earlier ones. It is acknowledged when the call
        returns."""

    def state(self, commits: int) -> Mapping[str, object]:
        """Returns the expected values by name after this number of transactions. No two states are equal."""

    def found(self, port: Any) -> Mapping[str, object]:
        """Reads the state of the store. Raises `Wrong` if two ways of reading disagree."""


@dataclass(frozen=True)
class Proof:
    """A phase that proves a tier. With these parameters, each operation is a commit, or each transaction around
    slices is."""

    phase: str
    count: str
    """Name of the parameter with the number of commits."""
    params: Mapping[str, Value] = field(default_factory=dict)
    history: Callable[[Job], History] | None = None
    """Creates the history for `dyno crash`; None if crashes can't be judged."""
    also: Proof | None = None
    """A second proof, by a phase that commits in another way. Engines that lack the phase (Absent) skip it. The
    parameters of all phases are used together."""

    def chain(self) -> Iterator[Proof]:
        yield self
        if self.also is not None:
            yield from self.also.chain()


class Suite(Protocol):
    """A family of experiments that answers one question. Inherit from this class for the defaults, and from classes
    of `dyno.contracts.roles` for what only some suites can do."""

    name: str
    title: str
    ports: tuple[str, ...]
    engines: tuple[str, ...] = ()
    """Engines that take part without being named. If empty, all engines take part that run here without a server."""
    params: tuple[Setting, ...]
    presets: Mapping[str, Preset]
    phases: tuple[Phase, ...]
    layout: Layout | None = cast("Layout | None", InFile())
    """The suite's own table."""
    charts: tuple[Curve, ...] = cast("tuple[Curve, ...]", InFile())
    """The suite's own charts, in addition to those of every run."""
    proof: Proof | None = None
    """How the suite proves a tier. None if it stores nothing, or if another suite proves the tier."""

    def workload(self, job: Job) -> Workload:
        """Returns the workload of a trial. The default calls `WORKLOAD(job)` of the module `workload` in the suite's
        package, which only workers import."""
        workload: Workload = defer_import(f"{type(self).__module__}.workload:WORKLOAD")(job)
        return workload


@dataclass(frozen=True)
class Job:
    """One trial for a worker, with all options and parameters resolved, and the server that was started for it."""

    spec: EngineSpec
    """The engine's declaration, reduced to the port that the suite uses."""
    home: Path
    tier: Tier | None
    """None if nothing is stored."""
    options: Mapping[str, Value]
    params: Mapping[str, Value]
    seed: int
    clients: int
    server: Server | None = None
    sealed: Path | None = None
    """Directory for sealed copies of loaded stores, by name, which all trials of the cell share. None: no copies."""
    thorough: bool = True
    """Whether the trial checks everything. False once a trial of this cell has ended well in this run: the brief
    conformance check is left out then, and `verify` may look at a sample of the store. Answers of measured operations
    are always checked."""

    def port(self, engine: Engine, *arguments: object) -> Any:
        """Returns the port on an opened engine."""
        (port,) = self.spec.ports.values()
        return port.open(engine, *arguments)

    def open(self, home: Path) -> Engine:
        """Opens the engine with its store in `home`, which must be an existing directory."""
        served = () if self.server is None else (self.server,)
        # The version is the library that is imported, or the program that was started.
        options = {name: value for name, value in self.options.items() if name != VERSION}
        return self.spec.opener(home, self.tier, options, *served)

    def remove(self, home: Path) -> None:
        """Removes the closed store in `home`, and the store's data on a server."""
        remove = None
        if self.spec.server is not None:
            remove = self.spec.server.remove
        if remove is not None and home.exists():
            remove(home, self.options, self.server)
        shutil.rmtree(home, ignore_errors=True)
