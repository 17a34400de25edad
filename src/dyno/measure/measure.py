"""Executes one client's share of a phase: slice by slice through the timed loops, answers judged in between."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from time import monotonic_ns
from typing import Any

from dyno.host.usage import of_thread_ns
from dyno.measure.arrivals import Arrivals
from dyno.measure.feed import Feed
from dyno.measure.loop import bulk
from dyno.measure.loops import Loop, pick
from dyno.measure.slices import Timed, Times, timed
from dyno.measure.tally import Tally
from dyno.model import Wrong
from dyno.pace import FOREVER_NS, PATIENCE, Pace
from dyno.suite import Bulk, Failure, Operations

Rounds = Callable[[int], Iterator[Operations | Bulk]]
# Rounds of a warm-up have numbers of their own: the measured inputs do not depend on it.
WARM = 1_000_000


@dataclass(frozen=True)
class Place:
    """Which client it is, of how many."""

    client: int = 0
    clients: int = 1


def measure(
    rounds: Rounds,
    pace: Pace,
    ready: Callable[[], object],
    place: Place = Place(),
    hot: bool = False,
) -> Tally:
    """Warms up, calls `ready` with the first slice built, and runs slices until they or the time end.

    `hot`: a whole untimed round comes first. Untimed answers are checked too. A wrong one ends the phase and
    stands in `void`.
    """
    with uncollected():
        return _Client(rounds, pace, place).measure(ready, hot)


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
    def __init__(self, rounds: Rounds, pace: Pace, place: Place) -> None:
        self._rounds, self._pace = rounds, pace
        self._loop: Loop = pick(pace.loop)
        self._arrivals: Arrivals | None = None
        if pace.rate is not None:
            self._arrivals = Arrivals(pace.rate, pace.arrivals, place.client, place.clients, pace.seed)
        self._tally = Tally()

    def measure(self, ready: Callable[[], object], hot: bool) -> Tally:
        with _ended(self._every()) as slices:
            return self._measured(slices, ready, hot)

    def _measured(self, slices: Iterator[Operations | Bulk], ready: Callable[[], object], hot: bool) -> Tally:
        first: Operations | Bulk | None = None
        try:
            if hot:
                self._tally.warm = self._untimed(self._rounds(WARM), self._pace.limit_ns)[1]
            self._warm_up()
            first = built(next(slices, None))
        except Wrong as wrong:
            self._tally.void = str(wrong)
        self._loop.calibrate()
        # Also where nothing is left to be done: other clients wait for this one.
        ready()
        try:
            self._run(first, slices)
        except Wrong as wrong:
            self._tally.void = str(wrong)
        return self._tally

    def _every(self) -> Iterator[Operations | Bulk]:
        """The slices of round 0, and, with a duration, of further rounds for as long as there are any."""
        for number in count():
            work = None
            with _ended(self._rounds(number)) as slices:
                for work in slices:
                    yield work
            if work is None or self._pace.duration_ns is None:
                return

    def _warm_up(self) -> None:
        left, deadline = self._pace.warmup_ns, monotonic_ns() + PATIENCE * self._pace.warmup_ns
        for number in count(WARM + 1):
            spent, _ = self._untimed(self._rounds(number), left) if left > 0 else (0, True)
            left -= spent
            if not spent or monotonic_ns() > deadline:
                return

    def _untimed(self, slices: Iterator[Operations | Bulk], limit_ns: int) -> tuple[int, bool]:
        """A round that is not recorded: how long it took, at most `limit_ns`, and whether it was done whole."""
        with _ended(slices):
            return self._unrecorded(slices, limit_ns)

    def _unrecorded(self, slices: Iterator[Operations | Bulk], limit_ns: int) -> tuple[int, bool]:
        spent = 0
        for work in slices:
            if spent >= limit_ns:
                return spent, False
            given: tuple[Any, ...]
            if isinstance(work, Bulk):
                feed = Feed(work.feed, limit_ns - spent)
                answer, elapsed_ns = bulk(work, feed)
                given, out_of_time = (answer, feed.taken), feed.out_of_time
            else:
                seen = timed(self._loop, work, limit_ns - spent)
                given, elapsed_ns, out_of_time = (seen.answers,), seen.elapsed_ns, seen.out_of_time
            spent += elapsed_ns
            if not isinstance(given[0], Failure):
                judged(work.check, *given)
            if out_of_time:
                return spent, False
        return spent, True

    def _run(self, work: Operations | Bulk | None, slices: Iterator[Operations | Bulk]) -> None:
        tally, pace = self._tally, self._pace
        deadline = monotonic_ns() + PATIENCE * (pace.duration_ns or FOREVER_NS)
        while work is not None:
            left = pace.limit_ns - tally.elapsed_ns
            if left <= 0:
                self._out_of_time()
                return
            record = self._bulk(work, left) if isinstance(work, Bulk) else self._operations(work, left)
            paused = of_thread_ns()
            record()
            # It holds the answers: they are freed within the pause.
            del record
            work = next(slices, None) if tally.ended_by == "count" else None
            self._pause(paused)
            if work is not None and monotonic_ns() > deadline:
                self._out_of_time()
                return

    def _pause(self, since: tuple[int, int]) -> None:
        user, system = of_thread_ns()
        before = self._tally.paused
        self._tally.paused = (before[0] + user - since[0], before[1] + system - since[1])

    def _out_of_time(self) -> None:
        self._tally.ended_by = "budget" if self._pace.duration_ns is None else "duration"

    def _operations(self, work: Operations, left_ns: int) -> Callable[[], None]:
        """Runs a slice; what is returned records and judges it."""
        due: Times | None = None
        if self._arrivals is not None:
            paused = of_thread_ns()
            due = self._arrivals.take(len(work.arguments)) - self._tally.elapsed_ns
            self._pause(paused)
        seen = timed(self._loop, work, left_ns, due)
        return lambda: self._record(work, seen, due)

    def _record(self, work: Operations, seen: Timed, due: Times | None) -> None:
        tally, done = self._tally, len(seen.answers)
        spans = seen.ends - seen.starts
        tally.operations += done
        tally.items += done if work.weights is None else sum(work.weights[:done])
        if seen.failures:
            failed = [at for at, answer in enumerate(seen.answers) if isinstance(answer, Failure)]
            tally.items -= sum(1 if work.weights is None else work.weights[at] for at in failed)
        tally.latency.add(spans)
        tally.series.add(seen.ends + tally.elapsed_ns, spans)
        if work.kinds is not None:
            tally.add_kinds(work.kinds, spans)
        if due is not None:
            tally.add_open(seen.starts, seen.ends, due[:done], seen.entered_ns)
        tally.count(seen.elapsed_ns, int(spans.sum()) + seen.transaction_ns, seen.failures)
        if seen.out_of_time:
            self._out_of_time()
        tally.checked += judged(work.check, seen.answers)

    def _bulk(self, work: Bulk, left_ns: int) -> Callable[[], None]:
        """Runs the one call; what is returned records and judges it."""
        paused = of_thread_ns()
        feed = Feed(work.feed, left_ns)
        self._pause(paused)
        answer, elapsed_ns = bulk(work, feed)

        def record() -> None:
            tally = self._tally
            failures = [answer] if isinstance(answer, Failure) else []
            tally.bulk = True
            tally.operations += 1
            tally.items += 0 if failures else feed.taken * work.items_per_record
            tally.count(elapsed_ns, elapsed_ns, failures)
            tally.paused = (tally.paused[0] + feed.paused_cpu[0], tally.paused[1] + feed.paused_cpu[1])
            if feed.out_of_time:
                self._out_of_time()
            if not failures:
                tally.checked += judged(work.check, answer, feed.taken)

        return record


@contextmanager
def _ended(slices: Iterator[Operations | Bulk]) -> Iterator[Iterator[Operations | Bulk]]:
    """What a generator of slices holds open, a transaction perhaps, is left with the block, not with the garbage."""
    try:
        yield slices
    finally:
        if isinstance(slices, Generator):
            slices.close()


def built(work: Operations | Bulk | None) -> Operations | Bulk | None:
    """With its items too, of which a bulk phase builds the first slice when asked."""
    if not isinstance(work, Bulk):
        return work
    first = next(work.feed, ())
    return replace(work, feed=chain([first] if first else (), work.feed))


def judged(check: Callable[..., int], *arguments: Any) -> int:
    """What a check of the arguments compared. Raises `Wrong`, also for an answer whose shape it can't look at."""
    try:
        return check(*arguments)
    except (Wrong, MemoryError):
        raise
    except Exception as error:
        raise Wrong(f"an answer that can't be checked: {type(error).__name__}: {error}") from error
