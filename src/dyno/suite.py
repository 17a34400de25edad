"""The contract between a suite and the worker that runs it. No suite, engine or clock may be put here."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from dyno.engine import Engine, EngineSpec, Server
from dyno.model import Caveat, Fact, Phase, Preset, Tier, Value
from dyno.settings import Setting


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


class Workload(Protocol):
    """The dataset and the phases of one trial, in the worker's process."""

    def conformance(self) -> None:
        """A brief model-based check of the engine in a directory of its own. Raises `Wrong`."""

    def prepare(self, phase: Phase) -> None:
        """Everything that the phase needs, untimed: a store that is empty, or loaded."""

    def connect(self) -> AbstractContextManager[Any]:
        """A port on the prepared store, for one client. Entered in that client's thread or process."""

    def release(self) -> None:
        """Closes the engine, so that client processes can open it themselves."""

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
        """The client's share of the phase, slice by slice.

        Round 0 is the phase. Further rounds, each with inputs of its own, are asked for until a duration is over,
        and beforehand to warm up; a phase that can't be done again yields nothing for them.
        """

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """What an application gave to be stored, in bytes, in so many items of a phase; None where unknown."""

    def verify(self, phase: Phase) -> int:
        """Looks at the store after a phase that writes; returns how many answers it compared. Raises `Wrong`."""

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        """What is to be told of the store after a phase, beside its times; nothing as a rule."""

    def engine(self) -> Engine:
        """The opened engine: for its version, settings, files and caveats."""

    def caveats(self) -> Iterable[Caveat]:
        """The suite's own remarks on what this engine was asked."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Column:
    """A column of a suite's own table: what of a cell stands in it."""

    title: str
    of: str
    """'param', 'fact', 'rate' (what a phase counts, a second) or 'operations' (its operations a second)."""
    name: str
    """Of the parameter, of the fact or of the phase."""
    kind: str = "text"
    """How a figure is written: 'text', 'count', 'bytes', 'ratio', 'rate' or 'ns'."""


@dataclass(frozen=True)
class Layout:
    """A table of a suite's own: a line for each cell, with figures of several phases, where its readers look for a
    parameter rather than for an engine. It travels in the run file."""

    columns: tuple[Column, ...]
    legend: tuple[str, ...] = ()
    """What its columns mean, in a line each."""


class OnStore:
    """What workloads have in common whose trial has one store at a time: its engine, opened when it is wanted."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._store: Path | None = None
        self._engine: Engine | None = None

    def engine(self) -> Engine:
        if self._engine is None:
            if self._store is None:
                raise RuntimeError("no phase has been prepared")
            self._engine = self._job.open(self._store)
        return self._engine

    def release(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def close(self) -> None:
        self.release()
        if self._store is not None:
            self._job.remove(self._store)


class Suite(Protocol):
    """A family of experiments that answers one question."""

    name: str
    title: str
    ports: tuple[str, ...]
    engines: tuple[str, ...]
    """Those that take part without being named; where there are none, all that can run here without a server."""
    params: tuple[Setting, ...]
    presets: Mapping[str, Preset]
    phases: tuple[Phase, ...]
    layout: Layout | None
    """Its own table, where it has one."""

    def workload(self, job: Job) -> Workload: ...


@dataclass(frozen=True)
class Job:
    """What a worker is told: one trial, with everything resolved, and the server that was started for it."""

    spec: EngineSpec
    home: Path
    tier: Tier
    options: Mapping[str, Value]
    params: Mapping[str, Value]
    seed: int
    clients: int
    server: Server | None = None

    def open(self, home: Path) -> Engine:
        """The engine with its store in `home`, a directory that exists."""
        served = () if self.server is None else (self.server,)
        return self.spec.opener(home, self.tier, self.options, *served)

    def remove(self, home: Path) -> None:
        """The store in `home`, which is closed, and what a server has of it."""
        if self.spec.remove is not None and home.exists():
            self.spec.remove(home, self.options, self.server)
        shutil.rmtree(home, ignore_errors=True)
