"""Adds a client's batches to its tally, and checks their answers."""

from collections.abc import Sequence

import numpy as np

from dyno.contracts.pace import Pace
from dyno.contracts.suite import Failure
from dyno.measure import pipelined
from dyno.measure.batches import BatchTime
from dyno.measure.slices import LoopResult, Slice
from dyno.measure.tally import Tally, select_succeeded


class BatchRecorder:
    """Adds batches to a tally."""

    def __init__(self, tally: Tally, pace: Pace) -> None:
        self._tally = tally
        self._pace = pace
        self._behind_ns = 0
        """Time in ns by which an open loop lags behind one in which Dyno was never late."""

    def record(self, results: Sequence[tuple[Slice, LoopResult]], start: int, time: BatchTime) -> None:
        """Adds a batch that began at `start`."""
        tally = self._tally
        base = tally.elapsed_ns
        before = start
        busy_ns = 0
        failures = list[Failure]()
        for slice_, result in results:
            spans_ns = self._record_slice(slice_, result, start - base, before, time)
            before = result.over
            busy_ns += spans_ns + result.transaction_ns
            failures += result.failures
        if results:
            tally.count(time.elapsed_ns, busy_ns, failures)
            tally.full_ns += time.full_ns

    def _record_slice(self, slice_: Slice, result: LoopResult, origin: int, before: int, time: BatchTime) -> int:
        """Adds what a batch did of a slice. `origin`: the beginning of the phase's time. `before`: end of the slice
        before. Returns the time of the operations."""
        tally = self._tally
        work = slice_.work
        done = len(result.answers)
        starts, ends = result.times()
        spans = ends - starts
        part = slice(result.first, result.first + done)
        good = select_succeeded(result.answers, len(result.failures))
        tally.operations += done
        if work.weights is None:
            tally.items += done - len(result.failures)
        else:
            tally.items += int(np.asarray(work.weights[part])[good].sum())
        tally.add_spans(ends[good] - origin, spans[good])
        if work.kinds is not None:
            tally.add_kinds(work.kinds[part], spans, good)
        if done:
            tally.last_begun_ns = int(starts[-1]) - origin
        if slice_.due is None:
            tally.count_full(ends - origin - tally.elapsed_ns, time.full_ns)
            return int(spans.sum())
        due = slice_.due[part]
        entering_ns = result.entered - result.begun
        free_ns = before - self._behind_ns + entering_ns
        done_ns = tally.add_open(starts, ends, due + origin, free_ns, good)
        if done:
            tally.lag_ns = tally.last_begun_ns - int(due[-1])
        if self._pace.limits:
            tally.judge(self._pace, due, ends - origin - due, good)
        # The time in the transaction is not Dyno's delay: the engine would have taken as long.
        self._behind_ns = max(result.over - done_ns - result.transaction_ns + entering_ns, 0)
        return int(spans.sum())

    def record_pipelined(self, batch: pipelined.PipelinedBatch, time: BatchTime) -> None:
        pipelined.record(batch, self._tally, time, self._pace)

    def check(self, slice_: Slice) -> None:
        """Checks the answers of a slice. Raises Wrong."""
        self._tally.check(slice_.work.check, slice_.answers)
        self._tally.add_details(slice_.work, slice_.answers)
