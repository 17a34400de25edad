"""Executes one client's share of a phase: batch by batch through the timed loops, with answers checked in between."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic_ns
from typing import Any

import numpy as np

from dyno.contracts.model import Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Bulk, Failure
from dyno.measure import pipelined
from dyno.measure.arrivals import Arrivals
from dyno.measure.loop import InputFeed, Loop, bulk, pick, uncollected
from dyno.measure.pauses import MemoryLimit, PauseMeter
from dyno.measure.position import ONE, ClientPosition
from dyno.measure.schedule import (
    CACHED,
    FOREVER_NS,
    GONE,
    LAG_SHARE,
    LOAD_TIMES,
    OPEN_MOST,
    READY,
    STOP,
    BatchScheduler,
    BatchTime,
    RunBatch,
    SingleClient,
    SoloClient,
)
from dyno.measure.slices import Announce, HeldTransaction, InputQueue, LoopResult, Rounds, Slice, run_slice
from dyno.measure.tally import Tally, succeeded
from dyno.measure.warm_up import run_untimed

WARM = 1_000_000
"""Number of the first warm-up round. Warm-up rounds have their own inputs, and the measured inputs don't depend on
the warm-up."""


def measure(
    rounds: Rounds,
    pace: Pace,
    ready: Callable[[], object],
    position: ClientPosition = ONE,
    hot: bool = False,
    scheduler: BatchScheduler | None = None,
    writes: bool = False,
    watch: Callable[[], int] = lambda: 0,
    announce: Announce = lambda: None,
    make: Callable[..., Client] | None = None,
) -> Tally:
    """Warms up, builds the first slices, calls `ready`, and runs batches until the slices or the time end.

    With `hot`, a whole untimed round comes first. Untimed answers are checked too. A wrong answer ends the phase; the
    result's `void` then has the reason. `scheduler` starts the batches together with those of other clients. `watch`
    returns the CPU time in ns that the server has used. `announce` is called before a check that may take long.
    `make` constructs another kind of client, with the same arguments.
    """
    with uncollected():
        return (make or Client)(rounds, pace, position, scheduler, writes, watch, announce).measure(ready, hot)


class Client:
    """One client's share of a phase."""

    def __init__(
        self,
        rounds: Rounds,
        pace: Pace,
        position: ClientPosition,
        scheduler: BatchScheduler | None,
        writes: bool,
        watch: Callable[[], int],
        announce: Announce,
    ) -> None:
        self._rounds, self._pace, self._position, self._watch = rounds, pace, position, watch
        self._open = pace.rate is not None
        self._loop: Loop = pick(pace.loop)
        arrivals = None if pace.rate is None else Arrivals(pace.rate, pace.arrivals, *position.of_all, pace.seed)
        self._scheduler: BatchScheduler = scheduler or (SoloClient() if pace.rate is None else SingleClient())
        self._queue = InputQueue(rounds, pace.duration_ns is not None, writes, arrivals)
        self._held = HeldTransaction()
        self._tally = Tally()
        self._writes, self._announce = writes, announce
        self._most, self._begun, self._deadline, self._warm_operations = self._scheduler.most, 0, FOREVER_NS, 0
        self._lags = False
        """Whether this client of an open loop lags so far behind its schedule that the rate isn't held."""
        self._behind_ns = 0
        """Time in ns by which an open loop lags behind one in which Dyno was never late."""

    def measure(self, ready: Callable[[], object], hot: bool) -> Tally:
        try:
            try:
                warmed_ns = 0
                if hot:
                    warmed_ns, self._tally.warm = self._warm_round(WARM, self._pace.limit_ns)
                left, deadline = self._pace.warmup_ns, monotonic_ns() + self._pace.patience * self._pace.warmup_ns
                for number in count(WARM + 1):
                    spent_ns, _ = self._warm_round(number, left) if left > 0 else (0, True)
                    left -= spent_ns
                    warmed_ns += spent_ns
                    if not spent_ns or monotonic_ns() > deadline:
                        break
                if self._warm_operations and (hot or self._scheduler.whole):
                    self._scheduler.expect(warmed_ns / self._warm_operations)
                self._load()
            except Wrong as wrong:
                self._tally.void = str(wrong)
            self._loop.calibrate()
            # Called even if there is nothing left to do, because other clients wait for this one.
            ready()
            if self._pace.duration_ns is not None:
                self._deadline = monotonic_ns() + self._pace.patience * self._pace.duration_ns
            self._run_batches()
            self._tally.due = self._due()
            if self._pace.limits and self._tally.due is not None:
                self._tally.judge_unstarted(self._pace, self._tally.due - self._tally.operations)
            return self._tally
        finally:
            with suppress(Exception):
                self._held.leave()
            self._close()

    # -- warm-up --------------------------------------------------------------------------------------------

    def _warm_round(self, number: int, limit_ns: int) -> tuple[int, bool]:
        """Runs an unrecorded round of about `limit_ns` at most. Returns its time, and whether it was completed."""
        slices, spent = self._rounds(number), 0
        try:
            for work in slices:
                if spent >= limit_ns:
                    return spent, False
                untimed = run_untimed(work, limit_ns - spent, self._loop, self._held)
                spent += untimed.elapsed_ns
                self._warm_operations += untimed.operations
                if untimed.out_of_time:
                    return spent, False
            return spent, True
        finally:
            self._held.leave()
            if isinstance(slices, Generator):
                slices.close()

    # -- batches --------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Builds the inputs of the next batch. For an open loop on schedule, builds those of all operations that are
        due in the phase, so that the schedule need not pause, as far as memory and time allow."""
        queue = self._queue
        if self._open and not (self._lags or self._scheduler.lags):
            self._load_due(queue)
        else:
            wanted, now = self._scheduler.operations(), self._loop.now
            memory = MemoryLimit(self._position.clients, now(), self._scheduler.loaded_bytes, loading=True)
            queue.load(lambda: queue.operations >= max(wanted, pipelined.wanted(queue.waiting)) or memory.full(now()))

    def _load_due(self, queue: InputQueue, queues: int = 1) -> None:
        """`queues`: number of queues of this client, each of which gets an equal share of memory and time."""
        clients, now = self._position.clients * queues, self._loop.now
        memory = MemoryLimit(clients, now())
        # A phase on several machines is one batch.
        until = FOREVER_NS if self._scheduler.whole else now() + LOAD_TIMES * self._pace.limit_ns // queues
        queue.load_due(self._pace.limit_ns, OPEN_MOST // clients, lambda: memory.full(now()) or now() > until)

    def _state(self) -> int:
        if self._tally.void is not None:
            return STOP
        if not self._waiting() or self._tally.ended_by != "count":
            return GONE
        if self._left_ns() <= 0:
            self._out_of_time()
            return GONE
        if self._tally.check_ns > self._pace.check_ns:
            self._tally.ended_by = "checks"
            return GONE
        if self._tally.wall_ns and monotonic_ns() > self._deadline:
            self._out_of_time()
            return STOP
        return READY

    def _left_ns(self) -> int:
        return self._pace.limit_ns - self._tally.elapsed_ns

    def _out_of_time(self) -> None:
        timed = self._pace.duration_ns is not None or self._queue.holds_endless_work
        self._tally.ended_by = "duration" if timed else "budget"

    def _run_batches(self) -> None:
        now, tally = self._loop.now, self._tally
        pauses = PauseMeter(self._position, self._watch)
        while True:
            state = self._state()
            if self._open:
                horizon_ns = min(queue.horizon_ns for queue in self._queues()) if state == READY else FOREVER_NS
                self._scheduler.offer(horizon_ns, self._lags)
            start = self._scheduler.start(state, now, partial(self._gathered, pauses))
            if start is None:
                break
            self._begun = self._begun or start
            batch = self._run_batch(start) if state == READY else self._empty_batch(start)
            tally.wall_ns = now() - self._begun
            time = self._scheduler.finish(batch.idle, batch.over, batch.operations, self._most, now)
            pauses.begin()
            try:
                batch.record(time)
                self._lags = tally.lag_ns > LAG_SHARE * tally.elapsed_ns
                # It holds the answers, which must be freed before inputs are built.
                del batch
                if tally.ended_by == "count":
                    self._load()
            except Wrong as wrong:
                tally.void = str(wrong)
        # Leave the held transaction, in measured time.
        begin = now()
        if self._held.leave():
            over = now()
            tally.count(over - begin, over - begin, ())
            tally.full_ns += over - begin
            tally.wall_ns = over - self._begun
        # Check the last slice, which may be incomplete.
        for slice_ in self._waiting():
            if isinstance(slice_, Slice) and slice_.done and tally.void is None:
                try:
                    self._check(slice_)
                except Wrong as wrong:
                    tally.void = str(wrong)

    def _gathered(self, pauses: PauseMeter) -> None:
        """Ends the pause. Before, it touches the next inputs: those built early have left the processor's caches, and
        the operations would wait for them."""
        left = CACHED
        for one in self._waiting():
            if isinstance(one, Slice) and left:
                # Only a copy to another type reads each input.
                left -= len(list(one.arguments[one.done : one.done + left]))
        pauses.end(self._tally)

    def _empty_batch(self, start: int) -> RunBatch:
        """Returns the batch of a client that has nothing left to do while others have."""
        return RunBatch(start, start, 0, lambda time: self._tally.count(time.elapsed_ns, 0, ()))

    def _batch_ns(self) -> int:
        """Returns the maximum length of the next batch. An open loop on schedule runs until the first client has no
        more inputs."""
        if self._open and not self._scheduler.lags:
            return self._scheduler.horizon_ns - self._tally.elapsed_ns
        return self._scheduler.length_ns()

    def _run_batch(self, start: int) -> RunBatch:
        limit, queue = start + min(self._left_ns(), FOREVER_NS), self._queue
        deadline = min(limit, start + self._batch_ns())
        if queue.waiting and isinstance(queue.waiting[0], Bulk):
            return self._run_bulk(queue.waiting.pop(0), start, limit - start)
        if pipelined.wanted(queue.waiting):
            # In a closed loop, the number of inputs limits the batch.
            deadline = deadline if self._open and not self._scheduler.lags else limit
            batch = pipelined.run_batch(queue.waiting, self._loop, start, deadline, self._tally.elapsed_ns)
            if batch.cut and deadline == limit:
                self._out_of_time()
            return RunBatch(batch.idle, batch.over, len(batch.result.answers), partial(self._record_pipelined, batch))
        origin, results, over = start - self._tally.elapsed_ns, list[tuple[Slice, LoopResult]](), start
        memory = MemoryLimit(self._position.clients, start) if self._scheduler.shared else None
        for slice_ in queue.waiting:
            assert isinstance(slice_, Slice)
            at = start if self._scheduler.together and not results else 0
            result = run_slice(self._loop, slice_, deadline, self._held, origin, at)
            results.append((slice_, result))
            over = result.over
            if slice_.left:
                if deadline == limit:
                    self._out_of_time()
                break
            if over > deadline or self._scheduler.by_slice:
                break
            if memory is not None and memory.full(over):
                self._most = max(sum(len(result.answers) for _, result in results), 1)
                break
        operations = sum(len(result.answers) for _, result in results)
        return RunBatch(over, over, operations, partial(self._record, results, start))

    def _record(self, results: list[tuple[Slice, LoopResult]], start: int, time: BatchTime) -> None:
        """Adds a batch to the tally, and checks the complete slices."""
        tally, base, busy_ns, failures = self._tally, self._tally.elapsed_ns, 0, list[Failure]()
        before = start
        for slice_, result in results:
            work, done, (starts, ends) = slice_.work, len(result.answers), result.times()
            spans = ends - starts
            part = slice(result.first, result.first + done)
            good = succeeded(result.answers, len(result.failures))
            tally.operations += done
            if work.weights is None:
                tally.items += done - len(result.failures)
            else:
                tally.items += int(np.asarray(work.weights[part])[good].sum())
            failures += result.failures
            tally.add_spans(ends[good] - start + base, spans[good])
            if work.kinds is not None:
                tally.add_kinds(work.kinds[part], spans, good)
            if done:
                tally.last_begun_ns = int(starts[-1]) - start + base
            if slice_.due is not None:
                entering_ns = result.entered - result.begun
                free_ns = before - self._behind_ns + entering_ns
                done_ns = tally.add_open(starts, ends, slice_.due[part] + start - base, free_ns, good)
                due = slice_.due[part]
                tally.lag_ns = tally.last_begun_ns - int(due[-1]) if done else tally.lag_ns
                if self._pace.limits:
                    tally.judge(self._pace, due, ends - start + base - due, good)
                # The time in the transaction is not Dyno's delay: the engine would have taken as long.
                self._behind_ns = max(result.over - done_ns - result.transaction_ns + entering_ns, 0)
            else:
                tally.count_full(ends - start, time.full_ns)
            before = result.over
            busy_ns += int(spans.sum()) + result.transaction_ns
        if results:
            tally.count(time.elapsed_ns, busy_ns, failures)
            tally.full_ns += time.full_ns
        self._check_complete([slice_ for slice_, _ in results])

    def _record_pipelined(self, batch: pipelined.PipelinedBatch, time: BatchTime) -> None:
        pipelined.record(batch, self._tally, time, self._pace)
        self._check_complete([slice_ for slice_, _ in batch.slices])

    def _check_complete(self, slices: Sequence[Slice]) -> None:
        for slice_ in slices:
            if not slice_.left:
                self._remove(slice_)
                self._check(slice_)

    def _check(self, slice_: Slice) -> None:
        work, answers = slice_.work, slice_.answers
        self._tally.check(work.check, answers)
        self._tally.add_details(work, answers)

    def _run_bulk(self, work: Any, start: int, left_ns: int) -> RunBatch:
        """Makes the one call."""
        shared = self._scheduler.shared
        feed = InputFeed(work.feed, left_ns, runs=shared, shared=work.counted is not None)
        while self._scheduler.together and self._loop.now() < start:
            pass
        answer, spent_ns = bulk(work, feed)
        over = self._loop.now() if shared else start + spent_ns

        def record(time: BatchTime) -> None:
            tally = self._tally
            failures = [answer] if type(answer) is Failure else []
            tally.bulk = True
            tally.operations += 1
            if not failures:
                counted = work.counted
                tally.items += feed.taken * work.items_per_record if counted is None else counted(answer, feed.taken)
            tally.count(time.elapsed_ns, spent_ns, failures)
            tally.paused = (tally.paused[0] + feed.paused_cpu[0], tally.paused[1] + feed.paused_cpu[1])
            if feed.out_of_time:
                self._out_of_time()
            if not failures:
                # Only the first check of a phase is announced: answers of further rounds have the same size.
                if not tally.check_ns:
                    self._announce()
                tally.check(work.check, answer, feed.taken)

        return RunBatch(over, over, 1, record)

    def _due(self) -> int | None:
        """Returns how many operations were due in the time of an open loop; None for a closed loop, and for bulk
        calls, whose rate would be one of calls.

        The time ends with the duration or budget. Operations that began before its end may finish after it, and no
        operation that is due after its end begins. If the operations run out first, the time ends when the last one
        begins: the schedule up to that moment shows whether the rate was held.
        """
        tally = self._tally
        if tally.bulk or not self._open:
            return None
        ran_out = tally.ended_by == "count"
        end_ns = tally.last_begun_ns if ran_out else min(tally.elapsed_ns, self._pace.limit_ns)
        return tally.operations + sum(queue.take_due(end_ns) for queue in self._queues())

    # -- the queues -----------------------------------------------------------------------------------------

    def _queues(self) -> Sequence[InputQueue]:
        return (self._queue,)

    def _waiting(self) -> list[Slice | Bulk]:
        return [one for queue in self._queues() for one in queue.waiting]

    def _remove(self, slice_: Slice) -> None:
        next(queue for queue in self._queues() if slice_ in queue.waiting).waiting.remove(slice_)

    def _close(self) -> None:
        self._queue.close()
