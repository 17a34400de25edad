"""Runs work that is not recorded: the slices of warm-up rounds."""

from collections.abc import Callable, Generator
from itertools import count
from time import monotonic_ns
from typing import Any, NamedTuple

from dyno.contracts.pace import Pace
from dyno.contracts.suite import Failure, Operations, Work
from dyno.measure import pipelined
from dyno.measure.loop import InputFeed, Loop, bulk
from dyno.measure.slices import HeldTransaction, Rounds, Slice, run_slice
from dyno.measure.tally import check_answers, select_succeeded

WARM = 1_000_000
"""Number of the first warm-up round. Warm-up rounds have their own inputs, and the measured inputs don't depend on
the warm-up."""


class WarmUpRound(NamedTuple):
    """A round that was not recorded."""

    elapsed_ns: int
    completed: bool
    operations: int = 0
    """Operations whose time is in `elapsed_ns`."""


RunRound = Callable[[int, int], WarmUpRound]
"""Runs a round, given its number and its longest time in ns, and checks its answers."""


def warm_up(run_round: RunRound, pace: Pace, hot: bool) -> WarmUpRound:
    """Runs a whole round if `hot`, and then rounds for the time of the warm-up. Returns them as one, which is
    completed if the whole round was. Raises Wrong."""
    completed = True
    spent_ns = 0
    operations = 0
    if hot:
        spent_ns, completed, operations = run_round(WARM, pace.limit_ns)
    left = pace.warmup_ns
    deadline = monotonic_ns() + pace.patience * left
    for number in count(WARM + 1):
        if left <= 0:
            break
        latest = run_round(number, left)
        left -= latest.elapsed_ns
        spent_ns += latest.elapsed_ns
        operations += latest.operations
        if not latest.elapsed_ns or monotonic_ns() > deadline:
            break
    return WarmUpRound(spent_ns, completed, operations)


def run_library_round(rounds: Rounds, loop: Loop, held: HeldTransaction, number: int, limit_ns: int) -> WarmUpRound:
    """Runs a round of a single client for about `limit_ns` at most, and checks its answers. Raises Wrong."""
    slices = rounds(number)
    spent_ns = 0
    operations = 0
    try:
        for work in slices:
            if spent_ns >= limit_ns:
                return WarmUpRound(spent_ns, False, operations)
            untimed = run_untimed(work, limit_ns - spent_ns, loop, held)
            spent_ns += untimed.elapsed_ns
            operations += untimed.operations
            if untimed.out_of_time:
                return WarmUpRound(spent_ns, False, operations)
        return WarmUpRound(spent_ns, True, operations)
    finally:
        held.leave()
        if isinstance(slices, Generator):
            slices.close()


class Untimed(NamedTuple):
    """A slice or a bulk call that was run, and whose answers are right."""

    elapsed_ns: int
    out_of_time: bool
    operations: int = 0
    """Operations that ran one after the other."""


def run_untimed(work: Work, limit_ns: int, loop: Loop, held: HeldTransaction) -> Untimed:
    """Runs the work for at most `limit_ns` and checks its answers. Raises Wrong."""
    if not isinstance(work, Operations):
        return _run_bulk(work, limit_ns)
    slice_ = Slice(work)
    if work.many is not None:
        run = Untimed(pipelined.run_untimed(slice_, limit_ns), slice_.left > 0)
    else:
        result = run_slice(loop, slice_, loop.now() + limit_ns, held)
        select_succeeded(result.answers, len(result.failures))
        run = Untimed(result.over - result.begun, slice_.left > 0, slice_.done)
    check_answers(work.check, slice_.answers)
    return run


def _run_bulk(work: Any, limit_ns: int) -> Untimed:
    feed = InputFeed(work.feed, limit_ns, shared=work.counted is not None)
    answer, elapsed_ns = bulk(work, feed)
    if type(answer) is not Failure:
        check_answers(work.check, answer, feed.taken)
    return Untimed(elapsed_ns, feed.out_of_time)
