"""The timed loops in Python, the call of a bulk phase, and the choice between these loops and the native ones.

The Python loops are used if the native ones (`rust/measure/src/steps.rs`) were not built, and keep the same contract.
While a loop runs, garbage collection is off (see `disable_collection`). Inputs are built before the loop, and answers
are checked after it.
"""

from __future__ import annotations

import gc
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, cycle
from time import monotonic_ns, process_time_ns, sleep, thread_time_ns
from time import perf_counter_ns as now
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import UsageError
from dyno.contracts.native import REMEDY, load_native
from dyno.contracts.suite import Bulk, Failure
from dyno.host.usage import of_thread_ns

if TYPE_CHECKING:
    from dyno.contracts.decoded_types import Loop as LoopDescription

NAME, CLOCK = "python", "monotonic clock"
AWAKE_NS = 200_000
"""A sleep wakes up late, so the loop spins on the clock this long before the end of a wait."""
PIECE = 256
"""Number of items of a bulk call between two checks of its budget."""
READINGS = 5
"""Number of readings from which the difference of two clocks is taken."""

Times = NDArray[np.int64]
Calls = Sequence[Callable[[Any], Any]]
Failed = Callable[[Exception], object]


class Stamps(NamedTuple):
    """When each operation began and ended, in ns of `now`."""

    starts: Any
    ends: Any

    def resolve(self) -> tuple[object, object]:
        return self.starts, self.ends


def calibrate() -> None:
    """Does nothing, because this clock is the kernel's own."""


@contextmanager
def disable_collection() -> Iterator[None]:
    """Switches garbage collection off in the block: the collector would mostly traverse inputs and answers that Dyno
    holds. An inner block does nothing. The outermost block collects at its start, and switches collection on again at
    its end."""
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# -- the timed loops: nothing else may stand between two stamps ---------------------------------------------------


def closed(
    calls: Calls, arguments: Sequence[object], deadline: int, failed: Failed, start_at: int = 0
) -> tuple[list[object], Stamps]:
    """Calls one operation after the other, beginning at `start_at`. Stops after the first operation that ends after
    the deadline.

    span = end - start: the call, its argument passing, and one reading of the clock. Between spans: the loop's
    bookkeeping and a second reading of the clock.
    """
    if arguments and not calls:
        raise ValueError("there is nothing to call")
    answers: list[object] = []
    stamps = Stamps([], [])
    answered = answers.append
    started = stamps.starts.append
    ended = stamps.ends.append
    steps = zip(cycle(calls), arguments, strict=False)
    if start_at:
        _wait(start_at)
    while True:
        try:
            for call, argument in steps:
                start = now()
                answer = call(argument)
                end = now()
                started(start)
                ended(end)
                answered(answer)
                if end > deadline:
                    return answers, stamps
            return answers, stamps
        except MemoryError:
            raise
        except Exception as error:
            end = now()
            started(start)
            ended(end)
            answered(failed(error))
            if end > deadline:
                return answers, stamps


def paced(
    calls: Calls, arguments: Sequence[object], due: Sequence[int], deadline: int, failed: Failed
) -> tuple[list[object], Stamps]:
    """Like `closed`, but begins no operation before it is due, and none that is due after the deadline. No span
    includes the wait."""
    if len(due) < len(arguments):
        raise ValueError("there are fewer moments than arguments")
    if arguments and not calls:
        raise ValueError("there is nothing to call")
    answers: list[object] = []
    stamps = Stamps([], [])
    for call, argument, when in zip(cycle(calls), arguments, due, strict=False):
        if when > deadline:
            break
        _wait(when)
        start = now()
        try:
            answer = call(argument)
            end = now()
        except MemoryError:
            raise
        except Exception as error:
            end = now()
            answer = failed(error)
        stamps.starts.append(start)
        stamps.ends.append(end)
        answers.append(answer)
        if end > deadline:
            break
    return answers, stamps


def _wait(until: int) -> None:
    while (left := until - now()) > 0:
        if left > AWAKE_NS:
            sleep((left - AWAKE_NS) / 1e9)


def bulk(work: Bulk, feed: InputFeed) -> tuple[object, int]:
    """Makes one call over all items. Returns its answer and its time.

    elapsed_ns = end - start around the call, minus the time in which the feed built its next slice
    """
    start = now()
    try:
        answer = work.call(feed.items())
    except MemoryError:
        raise
    except Exception as error:
        answer = Failure.from_error(error)
    return answer, now() - start - feed.paused_ns


class InputFeed:
    """The items of a bulk phase as one flat iterable. The clock stops while the next slice is built.

    With `runs`, the clock does not stop, because other clients are working. With `shared`, the CPU time that other
    threads of the engine use in a pause counts as measured time. The budget is checked every 256 items; an engine
    that takes all items before it writes exceeds it.
    """

    def __init__(
        self, slices: Iterator[Sequence[object]], budget_ns: int, runs: bool = False, shared: bool = False
    ) -> None:
        self._slices = slices
        self._budget_ns = budget_ns
        self._runs = runs
        self._shared = shared
        self._first: Sequence[object] = next(slices, ())
        self.taken = self.paused_ns = 0
        self.paused_cpu = (0, 0)
        """User and system CPU time of the pauses."""
        self.out_of_time = False

    def items(self) -> Iterable[object]:
        return chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[Sequence[object]]:
        begin, items = now(), self._first
        self._first = ()
        while items:
            for at in range(0, len(items), PIECE):
                if now() - begin - self.paused_ns > self._budget_ns:
                    self.out_of_time = True
                    return
                piece = items[at : at + PIECE]
                self.taken += len(piece)
                yield piece
            paused = now()
            others = _other_threads_ns()
            cpu = of_thread_ns()
            items = next(self._slices, ())
            after, gift_ns = of_thread_ns(), _other_threads_ns() - others if self._shared else 0
            self.paused_cpu = (self.paused_cpu[0] + after[0] - cpu[0], self.paused_cpu[1] + after[1] - cpu[1])
            self.paused_ns += 0 if self._runs else max(now() - paused - max(gift_ns, 0), 0)


def _other_threads_ns() -> int:
    """Returns the CPU time of this process without the calling thread, in ns."""
    return process_time_ns() - thread_time_ns()


# -- which loop measures ------------------------------------------------------------------------------------------

SAMPLE = 20_000
BATCHES = 5


class Resolvable(Protocol):
    def resolve(self) -> tuple[object, object]:
        """Returns starts and ends in ns: lists, or buffers of int64."""


class Loop(Protocol):
    """The interface that this module and the native one share."""

    NAME: str
    CLOCK: str

    def now(self) -> int: ...

    def calibrate(self) -> None: ...

    def closed(
        self, calls: Calls, arguments: Sequence[object], deadline: int, failed: Failed, start: int = 0, /
    ) -> tuple[list[object], Resolvable]: ...

    def paced(
        self, calls: Calls, arguments: Sequence[object], due: Times, deadline: int, failed: Failed
    ) -> tuple[list[object], Resolvable]: ...


def native() -> ModuleType | None:
    """Returns the native module; None if it was not built."""
    return cast("ModuleType | None", load_native())


def pick(name: str = "auto") -> Loop:
    """Returns the loop of this name. Raises UsageError if it was not built."""
    built = native()
    if name == "native" and built is None:
        raise UsageError(f"loop native is not built here; {REMEDY}")
    return cast(Loop, sys.modules[__name__] if built is None or name == "python" else built)


def describe_loop(loop: Loop) -> LoopDescription:
    """Returns the loop's name and clock, the version of Python, and the loop's own cost, measured on a trivial
    callable.

    - operation_ns: elapsed time per operation, which includes the call itself (some 15 ns).
    - span_ns: the median latency that the loop reports for such a call.

    Both are medians over several batches, whose arguments are built beforehand.
    """
    arguments, nothing = tuple(range(SAMPLE)), {}.get  # type: ignore[var-annotated]
    costs, spans = [], []
    for _ in range(BATCHES):
        begin = loop.now()
        _, stamps = loop.closed((nothing,), arguments, begin + 10**12, repr)
        costs.append((loop.now() - begin) / SAMPLE)
        starts, ends = resolve_stamps(stamps)
        spans.append(float(np.median(ends - starts)))
    cost, span = float(np.median(costs)), float(np.median(spans))
    return {
        "name": loop.NAME,
        "clock": loop.CLOCK,
        "python": platform.python_version(),
        "operation_ns": round(cost, 1),
        "span_ns": round(span, 1),
    }


def clocks(loop: Loop) -> tuple[int, ...]:
    """Reads three clocks, each in ns: that of budgets and batches, that of bulk calls, and the loop's."""
    return monotonic_ns(), now(), loop.now()


def monotonic_ahead_ns(loop_now: Callable[[], int]) -> int:
    """Returns how far the monotonic clock is ahead of the loop's, in ns. Of several readings it takes the quickest: a
    thread that loses its core between reading one clock and the other would be wrong by that time."""
    readings = []
    for _ in range(READINGS):
        before = monotonic_ns()
        between = loop_now()
        after = monotonic_ns()
        readings.append((after - before, (before + after) // 2 - between))
    return min(readings)[1]


def resolve_stamps(stamps: Resolvable) -> tuple[Times, Times]:
    """Returns the starts and ends as arrays."""
    starts, ends = stamps.resolve()
    if isinstance(starts, bytearray):
        convert: Callable[..., Times] = np.frombuffer
    else:
        convert = np.asarray
    return convert(starts, dtype=np.int64), convert(ends, dtype=np.int64)
