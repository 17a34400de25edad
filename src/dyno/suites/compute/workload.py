"""One trial of the compute suite: its numbers, what is done once, and the operations of each phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase
from dyno.contracts.suite import Failure, Job, Operations, Work, Workload
from dyno.suites.compute import conformance
from dyno.suites.compute.memory import read_rate
from dyno.suites.compute.params import COMPUTE, FIRST, LOAD, OPEN
from dyno.suites.compute.port import OPERATIONS, WANTED, Compute
from dyno.suites.compute.reference import Reference

TOGETHER = 1_000_000
"""Numbers that the operations of a slice go through: their answers wait in memory until they are checked."""
KEPT = 10_000
"""Sines of a slice. Were more of them kept, each operation would write to memory that the process never had before,
and its faults would take longer than the sines: who computes them in a loop lets go of those before."""
WARMING, WARMING_NS = 5, 250_000_000
"""Untimed operations after a check, which has been through the caches: with one of them, a million sines took twice
as long as in a loop of nothing else. What takes longer than that is no matter of caches, and would take minutes."""
ENOUGH = 50_000_000
"""Numbers that a phase goes through, of which it has fewer repeats where they are many; but not below LEAST."""
LEAST = 3
SHARED = 1_000_000
"""Numbers of which the share of the memory bandwidth is told: fewer are in the processor's caches."""


class ComputeWorkload(Workload):
    """See `dyno.contracts.suite.Workload`. The engine is opened once, in the time of `first-result` where that is
    measured."""

    def __init__(self, job: Job) -> None:
        self._job, self._params = job, job.params
        self._size, self._dtype = int(job.params["size"]), str(job.params["dtype"])
        self._engine: Engine | None = None
        self._port: Compute | None = None
        self._arrays: dict[str, Any] = {}
        self._handle: Any = None
        self._operation: Callable[[Any], Any] | None = None
        self._times: list[int] = []
        self._checked = False
        self._read_rate: float | None = None

    # -- the engine -----------------------------------------------------------------------------------------

    def conformance(self) -> None:
        """Nothing yet: it would open the engine, which is to be measured. It comes before the first operation."""

    def opens(self, phase: Phase) -> bool:
        return phase.name == FIRST

    def engine(self) -> Engine:
        if self._engine is None:
            store = self._job.home / "store"
            store.mkdir(exist_ok=True)
            self._engine = self._job.open(store)
        return self._engine

    def _opened(self) -> Compute:
        if self._port is None:
            self._port = self._job.port(self.engine())
        return self._port

    @contextmanager
    def connect(self) -> Iterator[Any]:
        yield self._port

    def release(self) -> None:
        self._handle = self._operation = None
        if self._port is not None:
            self._port.close()
            self._port = None
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def close(self) -> None:
        self.release()
        self._job.remove(Path(self._job.home / "store"))

    # -- before the clock -----------------------------------------------------------------------------------

    def prepare(self, phase: Phase) -> None:
        if phase.name == FIRST:
            self._make("avg")
            return
        if gap := next((gap for gap in self._job.spec.gaps if gap.check == phase.name), None):
            raise Absent(gap.reason)
        if phase.name == "corr" and self._size < 2:
            raise Absent("a correlation wants two pairs at least")
        port = self._opened()
        if not self._checked and not self._job.spec.floor:
            conformance.brief(port, self._dtype, {gap.check for gap in self._job.spec.gaps})
            self._handle = None
        self._checked = True
        self._operation = port.operation(phase.name)
        if set(self._arrays) != set(WANTED[phase.name]):
            self._make(phase.name)
        if self._handle is None:
            self._handle = port.load(self._arrays)
        # What is compiled for this operation is compiled, and memory is the process's own.
        self._judged(phase.name, [self._operation(self._handle)])
        self._times.clear()

    def _make(self, name: str) -> None:
        # Those before must have gone: only one set of them is in memory.
        self._arrays, self._handle = {}, None
        self._arrays = conformance.made(
            self._job.seed, self._dtype, self._size, int(self._params["columns"]), WANTED[name]
        )
        self._reference = Reference(self._arrays)

    # -- phases ---------------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        if phase.name == FIRST:
            if not round:
                yield Operations(
                    calls=lambda _: (self._start,),
                    arguments=[None],
                    check=lambda answers: self._judged("avg", [a if type(a) is Failure else a[0] for a in answers]),
                    parts=lambda answers: {
                        part: [0 if type(a) is Failure else a[1][at] for a in answers]
                        for at, part in enumerate((OPEN, LOAD, COMPUTE))
                    },
                )
            return
        assert self._operation is not None
        call = self._operation if self._size < SHARED else self._timed(self._operation)
        left = max(min(int(self._params["repeats"]), ENOUGH // self._size), LEAST)
        together = max((KEPT if phase.name == "sin" else TOGETHER) // self._size, 1)
        cached = together == 1 and self._size <= SHARED
        while left:
            cached = cached and self._warmed(self._operation)
            count = min(left, together)
            left -= count
            yield Operations(
                calls=lambda _: (call,),
                arguments=[self._handle] * count,
                check=lambda answers: self._judged(phase.name, answers),
                sizes=None if self._job.spec.floor else [self._bytes(phase.name)] * count,
            )

    def _warmed(self, operation: Callable[[Any], Any]) -> bool:
        """Whether operations are short enough for it to be worth while."""
        begin = perf_counter_ns()
        for _ in range(WARMING):
            operation(self._handle)
            if perf_counter_ns() - begin > WARMING_NS:
                return False
        return True

    def _start(self, _: Any) -> tuple[Any, tuple[int, int, int]]:
        """From nothing to the first average."""
        begin = perf_counter_ns()
        port = self._opened()
        opened = perf_counter_ns()
        self._handle = port.load(self._arrays)
        loaded = perf_counter_ns()
        answer = port.operation("avg")(self._handle)
        return answer, (opened - begin, loaded - opened, perf_counter_ns() - loaded)

    def _timed(self, operation: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The same, with its time taken down for the share of the bandwidth: a thousandth of what so many take."""
        times = self._times

        def timed(handle: Any) -> Any:
            begin = perf_counter_ns()
            answer = operation(handle)
            times.append(perf_counter_ns() - begin)
            return answer

        return timed

    def _judged(self, name: str, answers: Sequence[Any]) -> int:
        for answer in answers:
            # A curve ends here, and no operation of this size would end otherwise.
            if type(answer) is Failure and "MemoryError" in answer.error.partition(":")[0]:
                raise MemoryError(f"{name}: {answer.error}")
        if self._job.spec.floor:
            return 0
        return sum(self._reference.check(name, answer) for answer in answers if type(answer) is not Failure)

    def _bytes(self, name: str) -> int:
        """What has to be read, and of sines written, as the type that was asked for."""
        width = np.dtype(self._dtype).itemsize
        times = {"sin": 2, "corr": 2, "sum2d": int(self._params["columns"])}.get(name, 1)
        return self._size * times * width

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._job.spec.floor:
            return {}
        told: dict[str, Fact] = {"threads": None if self._port is None else self._port.threads()}
        if phase.name in OPERATIONS and self._times:
            if self._read_rate is None:
                self._read_rate = read_rate()
            rate = self._bytes(phase.name) / median(self._times) * 1e9
            told["memory_share"] = None if self._read_rate is None else rate / self._read_rate
        return told
