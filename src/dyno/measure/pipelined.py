"""A batch of operations of which many are in flight at once: runs it through the pipelined loop and adds it to the
tally."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from dyno.contracts.pace import NATIVE_LOAD, Pace
from dyno.contracts.suite import Bulk, Failure, NativeInFlight
from dyno.measure import pipelined_loop
from dyno.measure.batches import FOREVER_NS, MOST, OPERATIONS, BatchTime
from dyno.measure.loop import Loop, Stamps, Times
from dyno.measure.memory_limit import HELD_BYTES, MemoryLimit
from dyno.measure.slices import Slice
from dyno.measure.tally import Tally, select_succeeded

V = TypeVar("V")
NATIVE_OPERATIONS = 20_000
"""Minimum number of operations of a native loop's batch. After a pause, in which answers are checked, the server is
slower for some milliseconds, as its caches are cold."""


class PipelinedBatch(NamedTuple):
    """The result of a batch. Moments are in ns on the clock of `pipelined_loop`."""

    slices: list[tuple[Slice, int]]
    """The batch's slices, each with the number of its operations that were done in the batch."""
    result: pipelined_loop.BatchResult
    due: Times | None
    failures: list[Failure]
    start: int
    idle: int
    """When a place became free and nothing was left to begin there."""
    over: int
    """End of the batch."""
    native: bool = False
    """Whether a native loop ran it."""
    places: int = 1
    """Operations that were under way at once, for each client."""


def wanted_operations(waiting: Sequence[Slice | Bulk]) -> int:
    """Returns the number of operations for which a batch should have inputs; 0 for operations that run one after the
    other. It is large enough that the batch's end, when fewer and fewer operations are in flight, weighs little."""
    if waiting and isinstance(waiting[0], Slice) and waiting[0].work.many is not None:
        wanted = OPERATIONS * waiting[0].work.places
        if isinstance(waiting[0].work.many, NativeInFlight):
            wanted = max(wanted, NATIVE_OPERATIONS)
        return min(wanted, MOST)
    return 0


class InFlightBatch(NamedTuple):
    """A batch that was run. The answers of a native loop must still be decoded."""

    operations: int
    idle: int
    over: int
    """See `PipelinedBatch`; on the clock of the client's own loop."""
    cut: bool
    """Whether the time ran out before the slices did."""
    finish: Callable[[], PipelinedBatch]
    """Function that decodes the answers and adds them to their slices."""


def run_batch(waiting: Sequence[Slice | Bulk], own: Loop, start: int, limit: int, elapsed_ns: int) -> InFlightBatch:
    """Runs the rest of the slices, as far as time and memory last.

    `start` and `limit` are on the clock of `own`. The times at which operations are due count from the phase's
    beginning, `elapsed_ns` before `start`.
    """
    shift = own.now() - pipelined_loop.now()
    begin, deadline = start - shift, limit - shift
    slices = [one for one in waiting if isinstance(one, Slice)]
    batch = _run(slices, begin, deadline, begin - elapsed_ns, MemoryLimit(1, begin).full)
    return batch._replace(idle=batch.idle + shift, over=batch.over + shift)


def run_untimed(slice_: Slice, limit_ns: int) -> int:
    """Runs a slice that is not recorded, for at most `limit_ns`. Returns its duration in ns."""
    begin = pipelined_loop.now()
    batch = _run([slice_], begin, begin + min(limit_ns, FOREVER_NS), begin)
    batch.finish()
    return batch.over - begin


def _run(
    slices: Sequence[Slice], start: int, deadline: int, origin: int, full: Callable[[int], bool] = lambda now: False
) -> InFlightBatch:
    first, failures = slices[0].work, list[Failure]()
    if first.many is None or any(slice_.work.many is not first.many for slice_ in slices):
        raise ValueError("slices that wait together are under way in one loop")

    def record_failure(error: Exception) -> Failure:
        failures.append(Failure.from_error(error))
        return failures[-1]

    arguments = tuple(chain.from_iterable(slice_.arguments[slice_.done :] for slice_ in slices))
    due: Times | None = None
    if all(slice_.due is not None for slice_ in slices):
        due = np.concatenate([slice_.due[slice_.done :] for slice_ in slices if slice_.due is not None]) + origin
    moments = None if due is None else due.tolist()
    native = False
    if isinstance(first.many, NativeInFlight):
        native = True
        ran = first.many.run(first.places, arguments, moments, deadline, HELD_BYTES)
        stamps = Stamps(ran.starts, ran.ends)
        result = pipelined_loop.BatchResult([], stamps, ran.freed, ran.over - start, ran.full)
        decode = ran.decode
        over = ran.over
    else:
        result = pipelined_loop.run_pipelined(
            first.many, first.places, arguments, moments, deadline, full, record_failure
        )
        over = pipelined_loop.now()

        def decode() -> Sequence[object]:
            return result.answers

    idle = _idle_from(result, over)

    def finish() -> PipelinedBatch:
        answers = [record_failure(each) if isinstance(each, Exception) else each for each in decode()]
        counts = _distribute(slices, answers)
        decoded = result._replace(answers=answers)
        return PipelinedBatch(counts, decoded, due, failures, start, idle, over, native, first.places)

    operations = len(result.stamps.starts)
    return InFlightBatch(operations, idle, over, operations < len(arguments) and not result.full, finish)


def _distribute(slices: Sequence[Slice], answers: list[object]) -> list[tuple[Slice, int]]:
    """Adds to each slice its answers. Returns the slices, each with their number."""
    counts = list[tuple[Slice, int]]()
    at = 0
    for slice_ in slices:
        count = min(slice_.left, len(answers) - at)
        slice_.answers = slice_.answers + answers[at : at + count]
        at += count
        counts.append((slice_, count))
    return counts


def _idle_from(result: pipelined_loop.BatchResult, over: int) -> int:
    """Returns when the first operation ended after the last one had begun."""
    starts, ends = (np.asarray(times, dtype=np.int64) for times in result.stamps)
    if not len(starts):
        return over
    return int(ends[ends > starts[-1]].min(initial=over))


def record(batch: PipelinedBatch, tally: Tally, time: BatchTime, pace: Pace) -> None:
    """Adds the batch to the tally. Raises Wrong for an answer that only claims to be a failure."""
    result, base = batch.result, tally.elapsed_ns
    starts, ends = (np.asarray(times, dtype=np.int64) for times in result.stamps)
    spans = ends - starts
    good = select_succeeded(result.answers, len(batch.failures))
    tally.operations += len(spans)
    tally.places = batch.places
    if batch.native:
        tally.load = NATIVE_LOAD
    if len(starts):
        tally.last_begun_ns = int(starts.max()) - batch.start + base
    weights = list(
        chain.from_iterable(_latest_values(slice_.work.weights, slice_, count) for slice_, count in batch.slices)
    )
    tally.items += int(np.asarray(weights)[good].sum()) if weights else len(spans) - len(batch.failures)
    # The tally expects the order of ends; these are in the order of starts.
    order = np.argsort(ends[good], kind="stable")
    tally.add_spans((ends[good] - batch.start + base)[order], spans[good][order])
    if kinds := list(
        chain.from_iterable(_latest_values(slice_.work.kinds, slice_, count) for slice_, count in batch.slices)
    ):
        tally.add_kinds(kinds, spans, good)
    if batch.due is not None:
        # An operation is late if it begins later than possible: the later of its due time and the moment when a place
        # was free.
        due = batch.due[: len(spans)]
        free = np.maximum(due, np.asarray(result.freed, dtype=np.int64))
        tally.add_due((ends - due)[good], np.maximum(starts - free, 0))
        if len(starts):
            last = int(starts.argmax())
            tally.lag_ns = int(starts[last] - due[last])
        if pace.limits:
            tally.judge(pace, due - batch.start + base, ends - due, good)
    else:
        tally.count_full(ends - batch.start, time.full_ns)
    tally.count(time.elapsed_ns, min(result.busy_ns, time.elapsed_ns), batch.failures)
    tally.full_ns += time.full_ns


def _latest_values(values: Sequence[V] | None, slice_: Slice, count: int) -> Sequence[V]:
    """Returns the values of a slice's operations that were done last, `count` of them; empty without values."""
    if values is None:
        return ()
    return values[slice_.done - count : slice_.done]
