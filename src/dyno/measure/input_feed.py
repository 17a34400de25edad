"""The items of a bulk phase, whose one call takes them while the clock runs. Nothing is timed here but the pauses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from time import perf_counter_ns as now
from time import process_time_ns, thread_time_ns
from typing import Any

from dyno.host.usage import of_thread_ns

PIECE = 256


class InputFeed:
    """The items of a bulk phase as one flat iterable. The clock stands still while the next slice is built; but where
    it `runs` on, for others are at work meanwhile, building is in the time. Where a call reads, threads of the engine
    can go on with what comes next: `shared` then, the CPU time of other threads in a pause is in the time, too.

    The budget is looked at once in 256 items; an engine that takes them all before it writes overruns it.
    """

    def __init__(
        self, slices: Iterator[Sequence[Any]], budget_ns: int, runs: bool = False, shared: bool = False
    ) -> None:
        self._slices, self._budget_ns, self._runs, self._shared = slices, budget_ns, runs, shared
        self._first: Sequence[Any] = next(slices, ())
        self.taken = self.paused_ns = 0
        self.paused_cpu = (0, 0)
        """User and system CPU time of the pauses."""
        self.out_of_time = False

    def items(self) -> Iterable[Any]:
        return chain.from_iterable(self._pieces())

    def _pieces(self) -> Iterator[Sequence[Any]]:
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
            paused, others, cpu = now(), _of_others_ns(), of_thread_ns()
            items = next(self._slices, ())
            after, gift_ns = of_thread_ns(), _of_others_ns() - others if self._shared else 0
            self.paused_cpu = (self.paused_cpu[0] + after[0] - cpu[0], self.paused_cpu[1] + after[1] - cpu[1])
            self.paused_ns += 0 if self._runs else max(now() - paused - max(gift_ns, 0), 0)


def _of_others_ns() -> int:
    """CPU time of this process but for the calling thread, in ns."""
    return process_time_ns() - thread_time_ns()
