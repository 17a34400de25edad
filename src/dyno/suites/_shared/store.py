"""Workloads of trials with one store, and of those whose phases are runs of a tool that measures itself."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import Any

from dyno.contracts.copyable import Copyable
from dyno.contracts.engine import Engine
from dyno.contracts.model import Fact, Phase, Tier, Wrong
from dyno.contracts.roles import RemoteWorkload
from dyno.contracts.suite import Job, Report, Reported, Work, Workload
from dyno.host import filesystem
from dyno.host.facts import counters, subtract_counters
from dyno.host.procfs import mean_mhz


def brief(checks: Mapping[str, Callable[..., None]], *arguments: object, gaps: Collection[str] = ()) -> None:
    """Runs the checks, except those that the engine is declared to fail. Raises Wrong with the check's name."""
    for name, check in checks.items():
        if name not in gaps:
            try:
                check(*arguments)
            except Wrong as wrong:
                raise Wrong(f"conformance, {name}: {wrong}") from None


LEAST_BYTES = 16 << 20
"""Size from which a store on a server is sealed. Loading less takes no longer than restarting the server."""


class OnStore(Workload):
    """Workload of a trial with one store at a time, which is opened on demand and removed at the end."""

    checks: Mapping[str, Callable[..., None]] = {}
    """The fast conformance checks by name, called as `check(opened, tier)`. `opened` opens the port on a store of a
    given name, and passes further arguments to `port`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._store: Path | None = None
        self._engine: Engine | None = None
        self._new = False
        """True until the store is filled for the first time."""
        self._written = False
        """True if the store was written to since the last upkeep."""

    def port(self, engine: Engine, *arguments: Any) -> Any:
        return self._job.port(engine, *arguments)

    def port_arguments(self) -> tuple[object, ...]:
        """Returns further arguments of `port` for the clients of a phase."""
        return ()

    def connect(self) -> AbstractContextManager[Any]:
        return closing(self.port(self.engine(), *self.port_arguments()))

    def conformance(self) -> None:
        home = self._job.home / "conformance"

        @contextmanager
        def open_port(name: str, *arguments: object) -> Iterator[object]:
            (home / name).mkdir(parents=True, exist_ok=True)
            with closing(self._job.open(home / name)) as engine, closing(self.port(engine, *arguments)) as port:
                yield port

        brief(self.checks, open_port, self._job.tier, gaps={gap.check for gap in self._job.spec.gaps})
        for store in home.iterdir() if home.exists() else ():
            self._job.remove(store)

    def begin(self, name: str = "store") -> Path:
        """Creates a directory for the store, unless the trial has one, and returns it. Workloads whose stores are
        loaded call it before each phase."""
        self._new = self._store is None
        if self._store is None:
            self._store = self._job.home / name
            self._store.mkdir(parents=True)
        return self._store

    def load(self, fill: Callable[[], None]) -> None:
        """Loads the store by `fill`, which must fill a new store of the same name identically in every trial.

        The first trial of a cell seals a closed copy of the loaded store. Each trial, the first one included, begins
        with a copy of that. For a store on a server that Dyno started, the copy includes the whole data directory of
        the stopped server, and the store has the same name on the server in each trial.

        Each trial fills its own store if sealing is impossible (a user's server, a cluster, no files, a tier at which
        a closed store loses its data, no free space) or if a store on a server is small.
        """
        directories, sealing = self._directories(), self._job.sealed
        if not self._new or sealing is None or not directories:
            fill()
            return
        sealed = sealing / directories[0].name
        if not sealed.is_dir():
            fill()
            if not self._worth_sealing(directories):
                return
            if self._job.server is not None:
                # Otherwise only the first trial would run the upkeep, because only that one has written.
                self.keep_up()
            self.release()
            with self._stop_server():
                is_sealed = filesystem.seal(directories, sealed)
            if not is_sealed:
                return
        self.release()
        # What the server has now is not needed any more.
        with self._stop_server(kill=True):
            for number, directory in enumerate(directories):
                directory.mkdir(exist_ok=True)
                filesystem.copy(sealed / str(number), directory)

    def _directories(self) -> list[Path]:
        """Returns the directories that hold the closed store, the store's own first; none if they can't be copied."""
        store = self._store
        server = self._job.server
        assert store is not None
        if self._job.tier is Tier.VOLATILE:
            return []
        if isinstance(server, Copyable):
            return [store, server.data]
        if self._job.spec.server is None:
            return [store]
        return []

    def _worth_sealing(self, directories: list[Path]) -> bool:
        files = list(self.engine().files())
        if self._job.server is not None:
            # Compare the size rather than the time, so that all runs decide alike.
            return (filesystem.size_on_disk(files) or 0) >= LEAST_BYTES
        return bool(files) and all(path.is_relative_to(directories[0]) for path in files)

    @contextmanager
    def _stop_server(self, kill: bool = False) -> Iterator[None]:
        """Stops the server, if the store has one, and starts it again after the block unless that raised."""
        server = self._job.server
        if server is not None:
            (server.kill if kill else server.stop)()
        yield
        if server is not None:
            server.start()

    def keep_up(self) -> None:
        """Runs the engine's upkeep (an administrator's work after a load) if the store was written to."""
        if self._written and self._job.spec.upkeep is not None:
            self._job.spec.upkeep(self.engine())
        self._written = False

    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = self._job.open(self._store or self.begin())
        return self._engine

    def release(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def close(self) -> None:
        self.release()
        if self._store is not None:
            self._job.remove(self._store)
            self._store = None


class RemoteStore(OnStore, RemoteWorkload):
    """Workload of a trial with one store, whose clients can run on other machines."""

    def describe_store(self) -> dict[str, object]:
        assert self._store is not None
        return {"store": self._store.name}

    def join_store(self, state: Any) -> None:
        self._store = self._job.home / state["store"]


ROUNDING = 0.02
"""Relative error of a latency, which comes from the buckets of the tool's histogram."""


def plausible(report: Report, threads: int) -> int:
    """Checks that the figures of a report agree. Returns the number of compared figures. Raises Wrong."""
    if report.operations <= 0 or report.elapsed_ns <= 0:
        raise Wrong(f"{report.tool} did nothing: {report.operations} operations in {report.elapsed_ns} ns")
    if not report.latencies:
        return 1
    counted = sum(times for _, times in report.latencies)
    if counted != report.items:
        raise Wrong(f"{report.tool} reports {counted} latencies of {report.items} events")
    busy_ns = sum(value * times for value, times in report.latencies)
    if busy_ns > threads * report.elapsed_ns * (1 + ROUNDING) + report.operations * 1_000:
        raise Wrong(f"{report.tool} reports latencies of {busy_ns} ns in {threads} times {report.elapsed_ns} ns")
    return 3


def call_with_facts(call: Callable[[int], Report], limit_ns: int) -> Report:
    """Calls the tool, and adds facts of the machine to its report: clock_mhz, read once after half of the time, and
    stolen_percent, held_back_ns and overheated from `host.facts.subtract_counters`."""
    clocks: list[float | None] = []
    timer = threading.Timer(limit_ns / 2e9, lambda: clocks.append(mean_mhz()))
    timer.daemon = True
    before, begin = counters(), monotonic_ns()
    timer.start()
    report = call(limit_ns)
    stress = subtract_counters(before, counters(), monotonic_ns() - begin)
    timer.cancel()
    facts: dict[str, Fact] = {
        "clock_mhz": next(iter(clocks), None),
        "stolen_percent": stress["steal_percent"],
        "held_back_ns": stress["throttled_ns"],
        "overheated": stress["thermal_throttles"],
    }
    return replace(report, facts={**report.facts, **facts})


class ToolWorkload(OnStore):
    """Workload of a single tool run per phase, with one report for all clients."""

    def run(self, port: Any, phase: Phase, limit_ns: int) -> Report:
        """Runs the tool for `limit_ns`. Returns its report."""
        raise NotImplementedError

    def check(self, phase: Phase, report: Report) -> int:
        """Returns the number of compared figures. Raises Wrong if they contradict each other."""
        return plausible(report, self._job.clients)

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        yield Reported(partial(call_with_facts, partial(self.run, port, phase)), partial(self.check, phase))
