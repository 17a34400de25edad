"""The timed loops in Python: all that stands between two stamps of the clock. Nothing else may be put here.

They measure where the native loops (`rust/measure/src/steps.rs`) were not built, and keep the same contract. Garbage
collection is off while they run (see `measure`), inputs are built before, answers are judged after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from time import perf_counter_ns as now
from time import sleep
from typing import Any, NamedTuple

from dyno.contracts.suite import Bulk, Failure
from dyno.measure.input_feed import InputFeed

NAME, CLOCK = "python", "monotonic clock"
AWAKE_NS = 200_000
"""A sleep wakes late; the rest of a wait is spent looking at the clock."""

Calls = Sequence[Callable[[Any], Any]]
Failed = Callable[[Exception], Any]


class Stamps(NamedTuple):
    """When each operation began and ended, in ns of `now`."""

    starts: list[int]
    ends: list[int]

    def resolve(self) -> tuple[list[int], list[int]]:
        return self.starts, self.ends


def calibrate() -> None:
    """The clock is the kernel's own: there is nothing to calibrate."""


def closed(
    calls: Calls, arguments: Sequence[Any], deadline: int, failed: Failed, start_at: int = 0
) -> tuple[list[Any], Stamps]:
    """Calls one operation after the other, none before `start_at`, up to the first that ends after the deadline.

    span = end - start: the call, its argument passing, and one reading of the clock. Between spans: the loop's
    bookkeeping and a second reading of the clock.
    """
    if arguments and not calls:
        raise ValueError("there is nothing to call")
    answers: list[Any] = []
    stamps = Stamps([], [])
    answered, started, ended = answers.append, stamps.starts.append, stamps.ends.append
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
    calls: Calls, arguments: Sequence[Any], due: Sequence[int], deadline: int, failed: Failed
) -> tuple[list[Any], Stamps]:
    """The same, with none before it is due, and none that is due after the deadline. The wait is in no span."""
    if len(due) < len(arguments):
        raise ValueError("there are fewer moments than arguments")
    if arguments and not calls:
        raise ValueError("there is nothing to call")
    answers: list[Any] = []
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


def bulk(work: Bulk, feed: InputFeed) -> tuple[Any, int]:
    """One call over all items: its answer and its time.

    elapsed_ns = end - start around the call, less the time in which the feed built its next slice
    """
    start = now()
    try:
        answer = work.call(feed.items())
    except MemoryError:
        raise
    except Exception as error:
        answer = Failure.of(error)
    return answer, now() - start - feed.paused_ns
