"""Executes one client's share of a phase: batch by batch through the timed loops, with answers checked in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from dyno.contracts.model import Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Bulk, Failure
from dyno.measure import pipelined
from dyno.measure.arrivals import Arrivals
from dyno.measure.batches import FOREVER_NS, BatchTime, RunBatch
from dyno.measure.input_loader import InputLoader, touch_inputs
from dyno.measure.loop import InputFeed, Loop, bulk, disable_collection, pick
from dyno.measure.memory_limit import MemoryLimit
from dyno.measure.pauses import PauseMeter
from dyno.measure.phase_limits import PhaseLimits
from dyno.measure.position import ONE, ClientPosition
from dyno.measure.recording import BatchRecorder
from dyno.measure.schedule import READY, BatchScheduler, SingleClient, SoloClient
from dyno.measure.slices import Announce, HeldTransaction, InputQueue, LoopResult, Rounds, Slice, run_slice
from dyno.measure.tally import Tally
from dyno.measure.warm_up import WarmUpRound, run_library_round, warm_up

LAG_SHARE = 0.05
"""An open loop that is late by more than this share of its time can't hold its rate. Its batches become those of a
closed loop, whose memory doesn't depend on the rate."""


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
    warmed: Callable[[], object] = lambda: None,
) -> Tally:
    """Warms up, builds the first slices, calls `ready`, and runs batches until the slices or the time end.

    With `hot`, a whole untimed round comes first. Untimed answers are checked too. A wrong answer ends the phase; the
    result's `void` then has the reason. `scheduler` starts the batches together with those of other clients. `watch`
    returns the CPU time in ns that the server has used. `announce` is called before a check that may take long.
    `make` constructs another kind of client, with the same arguments. `warmed` is called after the warm-up, while no
    transaction is open: the first slices may open one.
    """
    with disable_collection():
        client = (make or Client)(rounds, pace, position, scheduler, writes, watch, announce)
        return client.measure(ready, hot, warmed)


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
        self._rounds = rounds
        self._pace = pace
        self._position = position
        self._writes = writes
        self._announce = announce
        self._loop: Loop = pick(pace.loop)
        self._scheduler: BatchScheduler = scheduler or (SoloClient() if pace.rate is None else SingleClient())
        self._inputs = InputLoader(pace, position, self._scheduler, self._loop)
        arrivals = None
        if pace.rate is not None:
            arrivals = Arrivals(pace.rate, pace.arrivals, *position.of_all, pace.seed)
        self._queue = InputQueue(rounds, pace.duration_ns is not None, writes, arrivals)
        self._held = HeldTransaction()
        self._tally = Tally()
        self._limits = PhaseLimits(pace, self._tally)
        self._recorder = BatchRecorder(self._tally, pace)
        self._pauses = PauseMeter(position, watch)
        self._most = self._scheduler.most

    def measure(self, ready: Callable[[], object], hot: bool, warmed: Callable[[], object]) -> Tally:
        tally = self._tally
        try:
            try:
                warm = warm_up(self._warm_round, self._pace, hot)
                tally.warm = warm.completed
                if warm.operations and (hot or self._scheduler.whole):
                    self._scheduler.expect(warm.elapsed_ns / warm.operations)
                warmed()
                self._load()
            except Wrong as wrong:
                tally.void = str(wrong)
            self._loop.calibrate()
            # Called even if there is nothing left to do, because other clients wait for this one.
            ready()
            self._limits.begin()
            self._run_batches()
            tally.due = self._count_due()
            if self._pace.limits and tally.due is not None:
                tally.judge_unstarted(self._pace, tally.due - tally.operations)
            return tally
        finally:
            with suppress(Exception):
                self._held.leave()
            self._pauses.close()
            self._close()

    def _warm_round(self, number: int, limit_ns: int) -> WarmUpRound:
        return run_library_round(self._rounds, self._loop, self._held, number, limit_ns)

    # -- batches --------------------------------------------------------------------------------------------

    @property
    def _open(self) -> bool:
        return self._pace.rate is not None

    @property
    def _lags(self) -> bool:
        """Whether this client of an open loop lags so far behind its schedule that the rate isn't held."""
        return self._tally.lag_ns > LAG_SHARE * self._tally.elapsed_ns

    @property
    def _on_schedule(self) -> bool:
        """Whether the clients of an open loop hold the rate."""
        return self._open and not self._scheduler.lags

    def _load(self) -> None:
        """Builds the inputs of the next batch."""
        if self._on_schedule and not self._lags:
            self._inputs.load_due(self._queue)
        else:
            self._inputs.load(self._queue)

    def _end_by_time(self) -> None:
        self._limits.end_by_time(self._queue.holds_endless_work)

    def _run_batches(self) -> None:
        now = self._loop.now
        tally = self._tally
        begun: int | None = None
        self._pauses.begin()
        while True:
            has_work = any(queue.waiting for queue in self._queues())
            state = self._limits.state(has_work, self._queue.holds_endless_work)
            if self._open:
                if state == READY:
                    horizon_ns = min(queue.horizon_ns for queue in self._queues())
                else:
                    horizon_ns = FOREVER_NS
                self._scheduler.offer(horizon_ns, self._lags)
            start = self._scheduler.start(state, now, self._end_pause)
            if start is None:
                break
            if begun is None:
                begun = start
            if state == READY:
                batch = self._run_batch(start)
            else:
                batch = self._empty_batch(start)
            tally.wall_ns = now() - begun
            time = self._scheduler.finish(batch.idle, batch.over, batch.operations, self._most, now)
            self._pauses.begin()
            try:
                batch.record(time)
                # It holds the answers, which must be freed before inputs are built.
                del batch
                if tally.ended_by == "count":
                    self._load()
            except Wrong as wrong:
                tally.void = str(wrong)
        self._leave_transaction(begun)
        self._check_incomplete()

    def _end_pause(self) -> None:
        """Called when all clients are about to start a batch."""
        touch_inputs(self._queues())
        self._pauses.end(self._tally)

    def _leave_transaction(self, begun: int | None) -> None:
        """Leaves the held transaction, in measured time. `begun`: when the first batch began."""
        tally = self._tally
        before = self._loop.now()
        if self._held.leave():
            over = self._loop.now()
            tally.count(over - before, over - before, ())
            tally.full_ns += over - before
            tally.wall_ns = over - (before if begun is None else begun)

    def _check_incomplete(self) -> None:
        """Checks the last slice, which may be incomplete."""
        for queue in self._queues():
            for slice_ in queue.waiting:
                if isinstance(slice_, Slice) and slice_.done and self._tally.void is None:
                    try:
                        self._recorder.check(slice_)
                    except Wrong as wrong:
                        self._tally.void = str(wrong)

    def _empty_batch(self, start: int) -> RunBatch:
        """Returns the batch of a client that has nothing left to do while others have."""
        return RunBatch(start, start, 0, lambda time: self._tally.count(time.elapsed_ns, 0, ()))

    def _batch_ns(self) -> int:
        """Returns the maximum length of the next batch. An open loop on schedule runs until the first client has no
        more inputs."""
        if self._on_schedule:
            return self._scheduler.horizon_ns - self._tally.elapsed_ns
        return self._scheduler.length_ns()

    def _run_batch(self, start: int) -> RunBatch:
        waiting = self._queue.waiting
        limit = start + min(self._limits.left_ns, FOREVER_NS)
        if waiting and isinstance(waiting[0], Bulk):
            return self._run_bulk(waiting[0], start, limit - start)
        deadline = min(limit, start + self._batch_ns())
        if pipelined.wanted_operations(waiting):
            return self._run_pipelined(start, deadline, limit)
        return self._run_slices(start, deadline, limit)

    def _run_pipelined(self, start: int, deadline: int, limit: int) -> RunBatch:
        # In a closed loop, the number of inputs limits the batch.
        deadline = deadline if self._on_schedule else limit
        batch = pipelined.run_batch(self._queue.waiting, self._loop, start, deadline, self._tally.elapsed_ns)
        if batch.cut and deadline == limit:
            self._end_by_time()

        def record(time: BatchTime) -> None:
            self._record_pipelined(batch.finish(), time)

        return RunBatch(batch.idle, batch.over, batch.operations, record)

    def _run_slices(self, start: int, deadline: int, limit: int) -> RunBatch:
        """Runs slices one after the other until the deadline. `limit`: when the phase is over."""
        origin = start - self._tally.elapsed_ns
        results = list[tuple[Slice, LoopResult]]()
        over = start
        memory = None
        if self._scheduler.shared:
            memory = MemoryLimit(self._position.clients, start)
        for slice_ in self._queue.waiting:
            assert isinstance(slice_, Slice)
            at = 0
            if self._scheduler.together and not results:
                at = start
            result = run_slice(self._loop, slice_, deadline, self._held, origin, at)
            results.append((slice_, result))
            over = result.over
            if slice_.left:
                if deadline == limit:
                    self._end_by_time()
                break
            if over > deadline or self._scheduler.by_slice:
                break
            if memory is not None and memory.full(over):
                self._most = max(sum(len(result.answers) for _, result in results), 1)
                break
        operations = sum(len(result.answers) for _, result in results)
        return RunBatch(over, over, operations, partial(self._record, results, start))

    def _record(self, results: list[tuple[Slice, LoopResult]], start: int, time: BatchTime) -> None:
        self._recorder.record(results, start, time)
        self._check_complete([slice_ for slice_, _ in results])

    def _record_pipelined(self, batch: pipelined.PipelinedBatch, time: BatchTime) -> None:
        self._recorder.record_pipelined(batch, time)
        self._check_complete([slice_ for slice_, _ in batch.slices])

    def _check_complete(self, slices: Sequence[Slice]) -> None:
        """Checks complete slices and removes them from their queue."""
        for slice_ in slices:
            if not slice_.left:
                next(queue for queue in self._queues() if slice_ in queue.waiting).waiting.remove(slice_)
                self._recorder.check(slice_)

    def _run_bulk(self, work: Bulk, start: int, left_ns: int) -> RunBatch:
        """Makes the one call."""
        self._queue.waiting.remove(work)
        shared = self._scheduler.shared
        feed = InputFeed(work.feed, left_ns, runs=shared, shared=work.counted is not None)
        while self._scheduler.together and self._loop.now() < start:
            pass
        answer, spent_ns = bulk(work, feed)
        over = self._loop.now() if shared else start + spent_ns

        def record(time: BatchTime) -> None:
            tally = self._tally
            failures = []
            if type(answer) is Failure:
                failures = [answer]
            tally.bulk = True
            tally.operations += 1
            if not failures:
                counted = work.counted
                tally.items += feed.taken * work.items_per_record if counted is None else counted(answer, feed.taken)
            tally.count(time.elapsed_ns, spent_ns, failures)
            tally.paused = (tally.paused[0] + feed.paused_cpu[0], tally.paused[1] + feed.paused_cpu[1])
            if feed.out_of_time:
                self._end_by_time()
            if not failures:
                # Only the first check of a phase is announced: answers of further rounds have the same size.
                if not tally.check_ns:
                    self._announce()
                tally.check(work.check, answer, feed.taken)

        return RunBatch(over, over, 1, record)

    def _count_due(self) -> int | None:
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
        if ran_out:
            end_ns = tally.last_begun_ns
        else:
            end_ns = min(tally.elapsed_ns, self._pace.limit_ns)
        return tally.operations + sum(queue.take_due(end_ns) for queue in self._queues())

    def _queues(self) -> Sequence[InputQueue]:
        return (self._queue,)

    def _close(self) -> None:
        self._queue.close()
