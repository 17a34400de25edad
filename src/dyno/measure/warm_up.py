"""Runs work that is not recorded: the slices of warm-up rounds."""

from typing import Any, NamedTuple

from dyno.contracts.suite import Failure, Operations, Work
from dyno.measure import pipelined
from dyno.measure.loop import InputFeed, Loop, bulk
from dyno.measure.slices import HeldTransaction, Slice, run_slice
from dyno.measure.tally import checked, succeeded


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
        succeeded(result.answers, len(result.failures))
        run = Untimed(result.over - result.begun, slice_.left > 0, slice_.done)
    checked(work.check, slice_.answers)
    return run


def _run_bulk(work: Any, limit_ns: int) -> Untimed:
    feed = InputFeed(work.feed, limit_ns, shared=work.counted is not None)
    answer, elapsed_ns = bulk(work, feed)
    if type(answer) is not Failure:
        checked(work.check, answer, feed.taken)
    return Untimed(elapsed_ns, feed.out_of_time)
