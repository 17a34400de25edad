"""Trial of the suite `compute`, with its inputs, expected answers and conformance checks."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import product
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import Absent, Fact, Phase, Tier, Wrong
from dyno.contracts.roles import OpeningWorkload
from dyno.contracts.suite import Check, Failure, Job, Opened, Operations, Work
from dyno.suites._shared.store import OnStore
from dyno.suites.compute import COMPUTE, DOUBLE, FIRST, LOAD, OPEN, SINGLE
from dyno.suites.compute.port import GRID, INPUTS, OPERATIONS, Compute, X, Y

CHUNK = 1 << 14
"""Number of values in each step of a check, so that intermediate arrays fit into the processor's caches."""
RELATIVE: Mapping[str, float] = {"float32": 1e-4, "float64": 1e-10}
"""Relative error allowed for sums and averages. All numbers are positive, so any order of addition stays well within
it, except naive addition in float32, which loses a number once the sum is 2^24 times as large."""
SINES: Mapping[str, float] = {"float32": 1e-6, "float64": 1e-14}
CORRELATION: Mapping[str, float] = {"float32": 1e-4, "float64": 1e-9}

LAZY = ("compute", "collect", "__dask_graph__")
"""Attributes of lazy results. Converting such a result to an array would compute it after its time was measured."""


def numbers(seed: int, dtype: str, shape: int | tuple[int, int], stream: int) -> NDArray[np.floating]:
    """Returns uniform numbers in [0, 1), the same for every engine."""
    kind: type[np.float32] | type[np.float64] = np.float32 if dtype == SINGLE else np.float64
    return np.random.default_rng([seed, stream]).random(shape, dtype=kind)


def generate(seed: int, dtype: str, size: int, width: int, names: tuple[str, ...]) -> dict[str, NDArray[np.floating]]:
    """Generates the named arrays. A grid has `width` columns."""
    arrays: dict[str, NDArray[np.floating]] = {}
    if X in names:
        arrays[X] = numbers(seed, dtype, size, 1)
    if Y in names:
        # Correlated with `x`: the mean of each of its numbers and another random number.
        arrays[Y] = numbers(seed, dtype, size, 2)
        arrays[Y] += arrays[X]
        arrays[Y] /= 2
    if GRID in names:
        arrays[GRID] = numbers(seed, dtype, (size, width), 3)
    return arrays


class Reference:
    """Expected answers for the loaded arrays, of extended precision if the machine supports it."""

    def __init__(self, arrays: Mapping[str, NDArray[np.floating]]) -> None:
        self._arrays = arrays
        first = next(iter(arrays.values()))
        self._dtype = str(first.dtype)
        self._answers: dict[str, object] = {}

    def check(self, name: str, answer: object) -> int:
        """Compares an answer. Returns the number of compared numbers. Raises Wrong."""
        if name == "sin":
            return self._sines(answer)
        if name not in self._answers:
            self._answers[name] = self._compute_answer(name)
        got = as_array(name, answer)
        expected = np.atleast_1d(np.asarray(self._answers[name], dtype=np.float64))
        if got.shape != expected.shape:
            raise Wrong(f"{name}: got {got.size} numbers, expected {expected.size}")
        tolerance = {"max": 0.0, "corr": CORRELATION[self._dtype]}.get(name, RELATIVE[self._dtype])
        allowed = tolerance * (np.ones_like(expected) if name == "corr" else np.abs(expected))
        # Use `not <=` rather than `>`, so that NaN is wrong.
        if not (np.abs(got - expected) <= allowed).all():
            raise Wrong(f"{name}: got {got.tolist()}, expected {expected.tolist()} to {tolerance:g}")
        return len(expected)

    def _sines(self, answer: object) -> int:
        x, got = self._arrays[X], as_array("sin", answer)
        if got.shape != x.shape:
            raise Wrong(f"sin: got {got.size} numbers, expected {x.size}")
        # For float32, doubles are precise enough and four times as fast.
        if self._dtype == SINGLE:
            wide: type[np.float64] | type[np.longdouble] = np.float64
        else:
            wide = np.longdouble
        for start in range(0, len(x), CHUNK):
            expected = np.sin(x[start : start + CHUNK].astype(wide))
            good = np.abs(got[start : start + CHUNK].astype(wide) - expected) <= SINES[self._dtype]
            if not good.all():
                at = int(np.flatnonzero(~good)[0])
                raise Wrong(f"sin of number {start + at}: got {got[start + at]!r}, expected {expected[at]!r}")
        return len(x)

    def _chunks(self, *names: str) -> Iterator[tuple[NDArray[np.longdouble], ...]]:
        arrays = [self._arrays[name] for name in names]
        for start in range(0, len(arrays[0]), CHUNK):
            yield tuple(array[start : start + CHUNK].astype(np.longdouble) for array in arrays)

    def _compute_answer(self, name: str) -> Any:
        if name == "max":
            return self._arrays[X].max()
        if name != "corr":
            parts = self._chunks(GRID if name == "sum2d" else X)
            total: Any = sum((part.sum(axis=0) for (part,) in parts), np.longdouble(0))
            if name == "avg":
                return total / len(self._arrays[X])
            return total
        sums = np.zeros(2, np.longdouble)
        for x, y in self._chunks(X, Y):
            sums += [x.sum(), y.sum()]
        mean_x, mean_y = sums / len(self._arrays[X])
        products = np.zeros(3, np.longdouble)
        for x, y in self._chunks(X, Y):
            dx, dy = x - mean_x, y - mean_y
            products += [(dx * dy).sum(), (dx * dx).sum(), (dy * dy).sum()]
        return products[0] / np.sqrt(products[1] * products[2])


def as_array(name: str, answer: object) -> NDArray[np.floating]:
    """Converts an answer to a one-dimensional array of floats. Raises Wrong if it is not numeric or not computed."""
    if any(hasattr(answer, attribute) for attribute in LAZY) or not getattr(answer, "is_ready", lambda: True)():
        raise Wrong(f"{name}: got {type(answer).__name__}, which is planned and not computed")
    try:
        array = np.asarray(answer)
        floats = array
        if array.dtype not in (np.float32, np.float64):
            floats = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise Wrong(f"{name}: got {type(answer).__name__}, expected numbers: {error}") from None
    # Convert to the base class, since a subclass could override the comparison.
    return np.asarray(floats).reshape(-1)


SLICE_NUMBERS = 1_000_000
"""Numbers that the operations of a slice process. Their answers stay in memory until they are checked."""
SLICE_SINES = 10_000
"""Number of sines in a slice. With more, each operation would write to fresh memory, and page faults would take
longer than the sines. A user's loop frees each result before the next."""
WARM_UPS, WARM_UP_NS = 5, 250_000_000
"""Untimed operations after a check, which evicts the caches. Without them, a million sines took twice as long as in a
plain loop. Operations that take longer than the time limit don't depend on the caches."""
PHASE_NUMBERS = 50_000_000
"""Numbers that a phase processes. Large arrays have fewer repeats, but at least LEAST_REPEATS."""
LEAST_REPEATS = 3
UNCACHED = 1_000_000
"""Size of the smallest array that exceeds the processor's caches and whose share of the bandwidth is reported."""
MEMORY_BYTES, PASSES = 256 << 20, 5
"""Size of the array, larger than nearly all caches, and number of reads, to measure the memory's bandwidth."""


def read_rate() -> float:
    """Measures the memory bandwidth in bytes per second: the median of five passes. In each pass, a thread for each
    core that this process may use computes the maximum of its part of an array."""
    array, times = np.ones(MEMORY_BYTES // 8), []
    parts = np.array_split(array, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(len(parts)) as threads:
        for _ in range(PASSES):
            begin = perf_counter_ns()
            list(threads.map(np.max, parts))
            times.append(perf_counter_ns() - begin)
    return array.nbytes / median(times) * 1e9


SIZES = (1, 7, 1_000, 70_001)
"""One number; fewer than a vector register holds; a round number; and a number that no chunk size divides."""


def _check_operation(name: str, opened: Opened[Compute], tier: Tier | None) -> None:
    with opened(name) as port:
        operation = port.operation(name)
        # Each load replaces the previous arrays. The same numbers must give the same answer again.
        for seed, (dtype, size) in enumerate(product((SINGLE, DOUBLE), SIZES)):
            if name == "corr" and size < 2:
                continue
            arrays = generate(seed, dtype, size, 3, INPUTS[name])
            handle, reference = port.load(arrays), Reference(arrays)
            for _ in range(2):
                reference.check(name, operation(handle))


CHECKS: Mapping[str, Check] = {name: partial(_check_operation, name) for name in OPERATIONS}
"""Checks of each operation with both types. A check raises Absent if the engine doesn't have the operation."""


def brief(port: Compute, dtype: str, gaps: Collection[str]) -> None:
    """Checks every operation on a few numbers of the trial's type before measuring. Raises Wrong."""
    for name in OPERATIONS:
        if name not in gaps:
            operation, arrays = port.operation(name), generate(0, dtype, 1_000, 3, INPUTS[name])
            Reference(arrays).check(name, operation(port.load(arrays)))


class ComputeWorkload(OnStore, OpeningWorkload):
    """Workload of the suite, see `dyno.contracts.suite.Workload`. If `first-result` is measured, it opens the
    engine."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._params = job.params
        self._size, self._dtype = int(job.params["size"]), str(job.params["dtype"])
        self._port: Compute | None = None
        self._arrays: dict[str, NDArray[np.floating]] = {}
        self._handle: object = None
        self._operation: Callable[[object], object] | None = None
        self._times: list[int] = []
        self._checked = False
        self._read_rate: float | None = None

    def opens(self, phase: Phase) -> bool:
        return phase.name == FIRST

    def conformance(self) -> None:
        """`prepare` checks the engine before its first operation instead, since opening it is measured."""

    def _open_port(self) -> Compute:
        if self._port is None:
            self._port = self._job.port(self.engine())
        return self._port

    @contextmanager
    def connect(self) -> Iterator[Compute | None]:
        yield self._port

    def release(self) -> None:
        self._handle = self._operation = None
        if self._port is not None:
            self._port.close()
            self._port = None
        super().release()

    def prepare(self, phase: Phase) -> None:
        if gap := next((gap for gap in self._job.spec.gaps if gap.check == phase.name), None):
            raise Absent(gap.reason)
        if phase.name == FIRST:
            self._generate("avg")
            return
        if phase.name == "corr" and self._size < 2:
            raise Absent("a correlation needs at least two pairs")
        port = self._open_port()
        if not self._checked and not self._job.spec.floor:
            brief(port, self._dtype, {gap.check for gap in self._job.spec.gaps})
            self._handle = None
        self._checked = True
        self._operation = port.operation(phase.name)
        if set(self._arrays) != set(INPUTS[phase.name]):
            self._generate(phase.name)
        if self._handle is None:
            self._handle = port.load(self._arrays)
        # Call the operation once, so that code is compiled and memory is mapped.
        self._check(phase.name, [self._operation(self._handle)])
        self._times.clear()

    def _generate(self, name: str) -> None:
        # Free the old arrays first, since only one set of arrays may fit into memory.
        self._arrays, self._handle = {}, None
        self._arrays = generate(self._job.seed, self._dtype, self._size, int(self._params["columns"]), INPUTS[name])
        self._reference = Reference(self._arrays)

    def work(self, phase: Phase, port: Compute, client: int, clients: int, round: int) -> Iterator[Work]:
        if phase.name == FIRST:
            if not round:
                yield Operations(
                    calls=lambda _: (self._start,),
                    arguments=[None],
                    check=lambda answers: self._check("avg", [a if type(a) is Failure else a[0] for a in answers]),
                    parts=lambda answers: {
                        part: [0 if type(a) is Failure else a[1][at] for a in answers]
                        for at, part in enumerate((OPEN, LOAD, COMPUTE))
                    },
                )
            return
        assert self._operation is not None
        operation, call = self._operation, self._operation

        def time_operation(handle: object) -> object:
            # For the share of the bandwidth. Recording takes a thousandth of the operation's time at these sizes.
            begin = perf_counter_ns()
            answer = operation(handle)
            self._times.append(perf_counter_ns() - begin)
            return answer

        if self._size >= UNCACHED:
            call = time_operation
        left = max(min(int(self._params["repeats"]), PHASE_NUMBERS // self._size), LEAST_REPEATS)
        most = max((SLICE_SINES if phase.name == "sin" else SLICE_NUMBERS) // self._size, 1)
        cached = most == 1 and self._size <= UNCACHED
        while left:
            cached = cached and self._warm_up(operation)
            count = min(left, most)
            left -= count
            yield Operations(
                calls=lambda _: (call,),
                arguments=[self._handle] * count,
                check=lambda answers: self._check(phase.name, answers),
                sizes=None if self._job.spec.floor else [self._bytes(phase.name)] * count,
            )

    def _warm_up(self, operation: Callable[[object], object]) -> bool:
        """Runs untimed operations. Returns whether they are short enough to need a warm-up."""
        begin = perf_counter_ns()
        for _ in range(WARM_UPS):
            operation(self._handle)
            if perf_counter_ns() - begin > WARM_UP_NS:
                return False
        return True

    def _start(self, _: None) -> tuple[object, tuple[int, int, int]]:
        """Opens the engine and computes the first average. Returns it with the durations of the parts in ns."""
        begin = perf_counter_ns()
        port = self._open_port()
        opened = perf_counter_ns()
        self._handle = port.load(self._arrays)
        loaded = perf_counter_ns()
        answer = port.operation("avg")(self._handle)
        return answer, (opened - begin, loaded - opened, perf_counter_ns() - loaded)

    def _check(self, name: str, answers: Sequence[object]) -> int:
        for answer in answers:
            # End the curve here, since larger arrays would fail too.
            if type(answer) is Failure and "MemoryError" in answer.error.partition(":")[0]:
                raise MemoryError(f"{name}: {answer.error}")
        if self._job.spec.floor:
            return 0
        return sum(self._reference.check(name, answer) for answer in answers if type(answer) is not Failure)

    def _bytes(self, name: str) -> int:
        """Returns the bytes that an operation must read (and write, for sines) in the requested type."""
        width = np.dtype(self._dtype).itemsize
        times = {"sin": 2, "corr": 2, "sum2d": int(self._params["columns"])}.get(name, 1)
        return self._size * times * width

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._job.spec.floor:
            return {}
        facts: dict[str, Fact] = {"threads": None if self._port is None else self._port.threads()}
        if phase.name in OPERATIONS and self._times:
            if self._read_rate is None:
                self._read_rate = read_rate()
            rate = self._bytes(phase.name) / median(self._times) * 1e9
            facts["memory_share"] = rate / self._read_rate
        return facts


WORKLOAD = ComputeWorkload
