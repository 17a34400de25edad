"""The timed loop of operations of which many are in flight at once. Nothing else belongs in this module: see
`loop`."""

from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns as now
from typing import NamedTuple

from dyno.contracts.suite import InFlight
from dyno.measure.loop import Failed, Stamps, Times

__all__ = ["BatchResult", "now", "run_pipelined"]
FOREVER_NS = 1 << 60


class BatchResult(NamedTuple):
    """The operations of a batch, in the order in which they began. Moments are in ns of `now`."""

    answers: list[object]
    stamps: Stamps
    freed: Sequence[int] | Times
    """When the place of each operation had become free; 0 if it was free from the start."""
    busy_ns: int
    """Time spent in `begin` and `ended`, which includes waiting for responses."""
    full: bool = False
    """Whether the batch ended because memory ran out, before its time and its arguments did."""


def run_pipelined(
    way: InFlight,
    places: int,
    arguments: Sequence[object],
    due: Sequence[int] | None,
    deadline: int,
    full: Callable[[int], bool],
    failed: Failed,
) -> BatchResult:
    """Keeps up to `places` operations in flight, begins none after the deadline, and waits for those that have begun.

    span = end - start: from before `begin` to the return of the call of `ended` that reports the operation. It
    includes work that was done for other operations meanwhile. With `due`, no operation begins before it is due. An
    operation that is due by the deadline begins if a place was free by then, even if this loop wakes up later. The
    place that has been free for the longest time is used first.
    """
    begin = way.begin
    ended = way.ended
    last = len(arguments)
    free = deque(range(places))
    since = [0] * places
    held = [-1] * places
    answers: list[object] = [None] * last
    stamps = Stamps([], [0] * last)
    freed = list[int]()
    at = under_way = busy = 0
    moment = now()
    while True:
        while (
            free
            and at < last
            and (moment <= deadline if due is None else due[at] <= min(moment, deadline))
            and since[free[0]] <= deadline
        ):
            place = free.popleft()
            held[place], start = at, now()
            stamps.starts.append(start)
            freed.append(since[place])
            at, under_way = at + 1, under_way + 1
            begin(place, arguments[at - 1])
            moment = now()
            busy += moment - start
        if full(moment):
            last = at
        more = at < last and moment <= deadline and (due is None or due[at] <= deadline)
        if not under_way and not more:
            break
        if due is not None and more and free:
            wait = max(due[at] - moment, 0)
        else:
            wait = FOREVER_NS
        start = now()
        done = ended(wait)
        moment = now()
        busy += moment - start
        for place, answer in done:
            if held[place] < 0:
                raise ValueError(f"nothing was under way at place {place}")
            if isinstance(answer, Exception):
                answers[held[place]] = failed(answer)
            else:
                answers[held[place]] = answer
            stamps.ends[held[place]] = since[place] = moment
            held[place] = -1
            free.append(place)
            under_way -= 1
    return BatchResult(answers[:at], Stamps(stamps.starts, stamps.ends[:at]), freed, busy, last < len(arguments))
