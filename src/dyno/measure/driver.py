"""Executes one client's share of a phase: flight by flight through the timed loops, answers judged in between."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from time import monotonic_ns
from typing import Any

import numpy as np

from dyno.contracts.model import Wrong
from dyno.contracts.pace import PATIENCE, Pace
from dyno.contracts.suite import Bulk, Failure, Operations, Work
from dyno.measure import pipelined
from dyno.measure.arrivals import Arrivals
from dyno.measure.batch import FOREVER_NS, GONE, MOST, READY, STOP, BatchScheduler, SingleClient, SoloClient
from dyno.measure.checks import Announce, Checks, judged
from dyno.measure.input_feed import InputFeed
from dyno.measure.input_queue import InputQueue, Rounds
from dyno.measure.loop import bulk
from dyno.measure.loops import Loop, pick
from dyno.measure.pause_meter import LOADED_BYTES, ONE, ClientPosition, MemoryLimit, PauseMeter
from dyno.measure.slices import HeldTransaction, Slice, Timed, timed
from dyno.measure.tally import Tally, succeeded

# Rounds of a warm-up have numbers of their own: the measured inputs do not depend on it.
WARM = 1_000_000
OPEN_MOST = 2_000_000
"""Operations of an open loop, of all clients together, whose inputs and answers are held: its schedule does not stand
still for less."""


def measure(
    rounds: Rounds,
    pace: Pace,
    ready: Callable[[], object],
    place: ClientPosition = ONE,
    hot: bool = False,
    flights: BatchScheduler | None = None,
    writes: bool = False,
    watch: Callable[[], int] = lambda: 0,
    announce: Announce = lambda: None,
) -> Tally:
    """Warms up, calls `ready` with the first slices built, and flies until they or the time end.

    `hot`: a whole untimed round comes first. Untimed answers are checked too. A wrong one ends the phase and
    stands in `void`. `flights`: those of the other clients too. `watch`: the CPU time in ns that the server has used.
    `announce`: called before a check that may take long.
    """
    with uncollected():
        return _Client(rounds, pace, place, flights, writes, watch, announce).measure(ready, hot)


@contextmanager
def uncollected() -> Iterator[None]:
    """Garbage collection is off in the block: what a collector would go through is mostly the inputs and answers
    that Dyno keeps. Inside another such block it does nothing: the outermost collects, and switches it on again.
    """
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Client:
    def __init__(
        self,
        rounds: Rounds,
        pace: Pace,
        place: ClientPosition,
        flights: BatchScheduler | None,
        writes: bool,
        watch: Callable[[], int],
        announce: Announce,
    ) -> None:
        self._rounds, self._pace, self._place, self._watch = rounds, pace, place, watch
        self._loop: Loop = pick(pace.loop)
        self._arrivals: Arrivals | None = None
        if pace.rate is not None:
            self._arrivals = Arrivals(pace.rate, pace.arrivals, place.client, place.clients, pace.seed)
        self._flights: BatchScheduler = flights or (SoloClient() if pace.rate is None else SingleClient())
        self._cargo = InputQueue(rounds, pace.duration_ns is not None, writes, self._arrivals)
        self._held = HeldTransaction()
        self._tally = Tally()
        self._checks = Checks(self._tally, announce)
        self._most, self._begun, self._deadline = MOST, 0, FOREVER_NS
        self._beforehand = 0
        """Operations that were done untimed."""
        self._behind_ns = 0
        """By how much an open loop is later than it would be, had Dyno never been late."""

    def measure(self, ready: Callable[[], object], hot: bool) -> Tally:
        try:
            return self._measured(ready, hot)
        finally:
            with suppress(Exception):
                self._held.leave()
            self._cargo.close()

    def _measured(self, ready: Callable[[], object], hot: bool) -> Tally:
        try:
            if hot:
                spent_ns, self._tally.warm = self._untimed(self._rounds(WARM), self._pace.limit_ns)
                if self._beforehand:
                    self._flights.expect(spent_ns / self._beforehand)
            self._warm_up()
            self._load()
        except Wrong as wrong:
            self._tally.void = str(wrong)
        self._loop.calibrate()
        # Also where nothing is left to be done: other clients wait for this one.
        ready()
        if self._pace.duration_ns is not None:
            self._deadline = monotonic_ns() + PATIENCE * self._pace.duration_ns
        self._fly_on()
        self._tally.due = self._due()
        return self._tally

    # -- beforehand -----------------------------------------------------------------------------------------

    def _warm_up(self) -> None:
        left, deadline = self._pace.warmup_ns, monotonic_ns() + PATIENCE * self._pace.warmup_ns
        for number in count(WARM + 1):
            spent, _ = self._untimed(self._rounds(number), left) if left > 0 else (0, True)
            left -= spent
            if not spent or monotonic_ns() > deadline:
                return

    def _untimed(self, slices: Iterator[Work], limit_ns: int) -> tuple[int, bool]:
        """A round that is not recorded: how long it took, at most `limit_ns`, and whether it was done whole."""
        with _ended(slices):
            try:
                return self._unrecorded(slices, limit_ns)
            finally:
                self._held.leave()

    def _unrecorded(self, slices: Iterator[Work], limit_ns: int) -> tuple[int, bool]:
        spent = 0
        for work in slices:
            if spent >= limit_ns:
                return spent, False
            given: tuple[Any, ...]
            if isinstance(work, Operations) and work.many is not None:
                parcel = Slice(work)
                elapsed_ns, done = pipelined.untimed(parcel, limit_ns - spent)
                given, out_of_time = (done,), parcel.left > 0
            elif isinstance(work, Operations):
                parcel = Slice(work)
                seen = timed(self._loop, parcel, self._loop.now() + limit_ns - spent, self._held)
                given, elapsed_ns, out_of_time = (parcel.answers,), seen.over - seen.begun, parcel.left > 0
                self._beforehand += parcel.done
                succeeded(seen.answers, len(seen.failures))
            else:
                assert isinstance(work, Bulk)
                feed = InputFeed(work.feed, limit_ns - spent, shared=work.counted is not None)
                answer, elapsed_ns = bulk(work, feed)
                given, out_of_time = (answer, feed.taken), feed.out_of_time
            spent += elapsed_ns
            if type(given[0]) is not Failure:
                judged(work.check, *given)
            if out_of_time:
                return spent, False
        return spent, True

    # -- flights --------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Inputs of the next flight: in an open loop, of all that is due in time, so that its schedule need not stand
        still."""
        cargo, arrivals = self._cargo, self._arrivals
        if arrivals is not None:
            most = OPEN_MOST // self._place.clients
            cargo.load(lambda: arrivals.last_ns > self._pace.limit_ns or cargo.operations >= most)
        else:
            wanted, now = self._flights.operations(), self._loop.now
            memory = MemoryLimit(self._place.clients, now(), LOADED_BYTES)
            cargo.load(lambda: cargo.operations >= max(wanted, pipelined.wanted(cargo.waiting)) or memory.full(now()))

    def _state(self) -> int:
        if self._tally.void is not None:
            return STOP
        if not self._cargo.waiting or self._tally.ended_by != "count":
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

    def _fly_on(self) -> None:
        now, tally = self._loop.now, self._tally
        standing = PauseMeter(self._place, self._watch)
        while True:
            start = self._flights.take_off(self._state(), now, partial(standing.ends, tally))
            if start is None:
                break
            self._begun = self._begun or start
            over, done, record = self._fly(start)
            tally.wall_ns = now() - self._begun
            elapsed_ns = self._flights.land(over, done, self._most, now)
            standing.begins()
            try:
                record(elapsed_ns)
                # It holds the answers: they are freed before inputs are built.
                del record
                if tally.ended_by == "count":
                    self._load()
            except Wrong as wrong:
                tally.void = str(wrong)
        self._arrive()

    def _arrive(self) -> None:
        """The transaction that holds slices is the engine's to the end; the last slice may have been cut."""
        begin = self._loop.now()
        if self._held.leave():
            over = self._loop.now()
            self._tally.count(over - begin, over - begin, ())
            self._tally.wall_ns = over - self._begun
        for parcel in self._cargo.waiting[:1]:
            if isinstance(parcel, Slice) and parcel.done and self._tally.void is None:
                try:
                    self._judge(parcel)
                except Wrong as wrong:
                    self._tally.void = str(wrong)

    def _out_of_time(self) -> None:
        self._tally.ended_by = "budget" if self._pace.duration_ns is None else "duration"

    def _fly(self, start: int) -> tuple[int, int, Callable[[int], None]]:
        """One flight: when it was over, how many operations it had, and what records and judges them, which is given
        how long it took for all clients together."""
        limit = start + min(self._left_ns(), FOREVER_NS)
        if self._cargo.waiting and isinstance(self._cargo.waiting[0], Bulk):
            over, record = self._bulk(self._cargo.waiting.pop(0), start, limit - start)
            return over, 1, record
        if pipelined.wanted(self._cargo.waiting):
            flight = pipelined.fly(self._cargo.waiting, self._loop, start, limit, self._tally.elapsed_ns)
            if flight.cut:
                self._out_of_time()
            return flight.over, len(flight.seen.answers), partial(self._record_many, flight)
        deadline = limit if self._arrivals is not None else min(limit, start + self._flights.length_ns())
        origin, legs, over = start - self._tally.elapsed_ns, list[tuple[Slice, Timed]](), start
        memory = MemoryLimit(self._place.clients, start) if self._flights.shared else None
        for parcel in self._cargo.waiting:
            assert isinstance(parcel, Slice)
            at = start if self._flights.together and not legs else 0
            leg = timed(self._loop, parcel, deadline, self._held, origin, at)
            legs.append((parcel, leg))
            over = leg.over
            if parcel.left:
                if deadline == limit:
                    self._out_of_time()
                break
            if over > deadline:
                break
            if memory is not None and memory.full(over):
                self._most = max(sum(len(leg.answers) for _, leg in legs), 1)
                break
        return over, sum(len(leg.answers) for _, leg in legs), partial(self._record, legs, start)

    def _record(self, legs: list[tuple[Slice, Timed]], start: int, elapsed_ns: int) -> None:
        """What was seen goes into the tally, and slices that are done are judged."""
        tally, base, busy_ns, failures = self._tally, self._tally.elapsed_ns, 0, list[Failure]()
        before = start
        for parcel, leg in legs:
            work, done, (starts, ends) = parcel.work, len(leg.answers), leg.times()
            spans = ends - starts
            stretch = slice(leg.first, leg.first + done)
            good = succeeded(leg.answers, len(leg.failures))
            tally.operations += done
            if work.weights is None:
                tally.items += done - len(leg.failures)
            else:
                tally.items += int(np.asarray(work.weights[stretch])[good].sum())
            failures += leg.failures
            tally.add_spans(ends[good] - start + base, spans[good])
            if work.kinds is not None:
                tally.add_kinds(work.kinds[stretch], spans, good)
            if done:
                tally.last_begun_ns = int(starts[-1]) - start + base
            if parcel.due is not None:
                entering_ns = leg.entered - leg.begun
                free_ns = before - self._behind_ns + entering_ns
                done_ns = tally.add_open(starts, ends, parcel.due[stretch] + start - base, free_ns, good)
                # Its transaction is the engine's, who would have taken as long.
                self._behind_ns = max(leg.over - done_ns - leg.transaction_ns + entering_ns, 0)
            before = leg.over
            busy_ns += int(spans.sum()) + leg.transaction_ns
        if legs:
            tally.count(elapsed_ns, busy_ns, failures)
        self._judge_done([parcel for parcel, _ in legs])

    def _record_many(self, flight: pipelined.Flight, elapsed_ns: int) -> None:
        pipelined.record(flight, self._tally, elapsed_ns)
        self._judge_done([parcel for parcel, _ in flight.legs])

    def _judge_done(self, parcels: Sequence[Slice]) -> None:
        for parcel in parcels:
            if not parcel.left:
                self._cargo.waiting.remove(parcel)
                self._judge(parcel)

    def _judge(self, parcel: Slice) -> None:
        work, answers = parcel.work, parcel.answers
        self._checks.run(work.check, answers)
        if work.sizes is not None or work.parts is not None:
            good = [answer for answer in answers if type(answer) is not Failure]
            self._tally.add_bytes(_sizes(work.sizes, answers, good))
            for part, spans in (work.parts(good) if work.parts is not None and good else {}).items():
                self._tally.add_part(part, spans)

    def _bulk(self, work: Any, start: int, left_ns: int) -> tuple[int, Callable[[int], None]]:
        """Runs the one call: when it was over, and what records and judges it."""
        shared = self._flights.shared
        feed = InputFeed(work.feed, left_ns, runs=shared, shared=work.counted is not None)
        while self._flights.together and self._loop.now() < start:
            pass
        answer, spent_ns = bulk(work, feed)
        over = self._loop.now() if shared else start + spent_ns

        def record(elapsed_ns: int) -> None:
            tally = self._tally
            failures = [answer] if type(answer) is Failure else []
            tally.bulk = True
            tally.operations += 1
            if not failures:
                told = work.counted
                tally.items += feed.taken * work.items_per_record if told is None else told(answer, feed.taken)
            tally.count(elapsed_ns, spent_ns, failures)
            tally.paused = (tally.paused[0] + feed.paused_cpu[0], tally.paused[1] + feed.paused_cpu[1])
            if feed.out_of_time:
                self._out_of_time()
            if not failures:
                self._checks.run_announced(work.check, answer, feed.taken)
                if work.moved is not None:
                    tally.add_bytes(work.moved(answer, feed.taken))

        return over, record

    def _due(self) -> int | None:
        """How many operations the schedule of an open loop had in its time.

        That time ends with the duration or budget. Operations that began before it may end after it, and none that is
        due meanwhile begins. If the operations ran out first, it ends when the last one began: a schedule that went
        on until then shows whether the rate was held.
        """
        if self._arrivals is None:
            return None
        tally, waiting = self._tally, self._cargo.waiting
        ran_out = tally.ended_by == "count"
        end_ns = tally.last_begun_ns if ran_out else min(tally.elapsed_ns, self._pace.limit_ns)
        parcels = [one for one in waiting if isinstance(one, Slice) and one.due is not None]
        left = sum(int((one.due[one.done :] <= end_ns).sum()) for one in parcels if one.due is not None)
        return tally.operations + left + self._arrivals.until(end_ns)


Sizes = Sequence[int] | Callable[[Sequence[Any]], Sequence[int]]


def _sizes(sizes: Sizes | None, answers: Sequence[Any], good: Sequence[Any]) -> int | None:
    """How many bytes moved, of what did not raise."""
    if sizes is None:
        return None
    if callable(sizes):
        return sum(sizes(good)) if good else 0
    return sum(size for size, answer in zip(sizes, answers, strict=False) if type(answer) is not Failure)


@contextmanager
def _ended(slices: Iterator[Work]) -> Iterator[Iterator[Work]]:
    """What a generator of slices holds open is left with the block, not with the garbage."""
    try:
        yield slices
    finally:
        if isinstance(slices, Generator):
            slices.close()
