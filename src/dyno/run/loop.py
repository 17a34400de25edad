"""The timed loops: all that stands between two stamps of the clock. Nothing else may be put here.

Garbage collection is off while they run (see `measure`), inputs are built before, answers are judged after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from time import perf_counter_ns as now
from typing import Any, NamedTuple

from dyno.suite import Bulk, Failure, Operations

PIECE = 256


class Timed(NamedTuple):
    """What a loop saw."""

    answers: Sequence[Any]
    spans: list[int]
    transaction_ns: int
    """Entering and leaving the transaction around the slice: the engine's time, and in no span."""
    elapsed_ns: int
    out_of_time: bool


def closed(work: Operations, budget_ns: int) -> Timed:
    """Calls one operation after the other, for as long as the budget lasts.

    span       = end - start around one call: the call, its argument passing, and one reading of the clock
    transaction_ns = entering and leaving `around`
    elapsed_ns = from before `around` is entered to after it is left: every span, the loop's own time between
                 spans (its bookkeeping and a second reading of the clock), and transaction_ns
    """
    answers: list[Any] = []
    spans: list[int] = []
    answered, timed = answers.append, spans.append
    begin = start = end = now()
    deadline = begin + budget_ns
    with work.around() as entered:
        inside = now()
        steps = zip(work.calls(entered), work.arguments, strict=False)
        while True:
            try:
                for call, argument in steps:
                    start = now()
                    answer = call(argument)
                    end = now()
                    timed(end - start)
                    answered(answer)
                    if end > deadline:
                        break
                break
            except MemoryError:
                raise
            except Exception as error:
                end = now()
                timed(end - start)
                answered(Failure(f"{type(error).__name__}: {error}"))
                if end > deadline:
                    break
        leaving = now()
    over = now()
    transaction = inside - begin + over - leaving
    return Timed(answers, spans, transaction, over - begin, len(answers) < len(work.arguments))


class Feed:
    """The items of a bulk phase as one flat iterable. The clock stands still while the next slice is built.

    The budget is looked at once in 256 items; an engine that takes them all before it writes overruns it.
    """

    def __init__(self, slices: Iterator[Sequence[Any]], budget_ns: int) -> None:
        self._slices, self._budget_ns = slices, budget_ns
        self._first: Sequence[Any] = next(slices, ())
        self.taken = self.paused_ns = 0
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
            paused = now()
            items = next(self._slices, ())
            self.paused_ns += now() - paused


def bulk(work: Bulk, feed: Feed) -> Timed:
    """One call over all items.

    elapsed_ns = end - start around the call, less the time in which the feed built its next slice
    """
    start = now()
    try:
        answer = work.call(feed.items())
    except MemoryError:
        raise
    except Exception as error:
        answer = Failure(f"{type(error).__name__}: {error}")
    elapsed = now() - start - feed.paused_ns
    return Timed([answer], [elapsed], 0, elapsed, feed.out_of_time)
