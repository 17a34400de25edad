"""Slices of operations: queued for a client, and run through a timed loop within their transaction."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from dyno.contracts.pace import FOREVER_NS
from dyno.contracts.suite import Bulk, Failure, NativeInFlight, Operations, Reported, Work
from dyno.measure.arrivals import Arrivals
from dyno.measure.loop import Loop, Resolvable, Times, resolve_stamps

Rounds = Callable[[int], Iterator[Work]]
"""Builds the slices of a round, given the round's number."""
Announce = Callable[[], object]
"""Called before a check that may take long, so that a timeout in the check can be reported as such."""


class Slice:
    """A slice in progress. It may span several batches."""

    def __init__(self, work: Operations, due: Times | None = None) -> None:
        self.work = work
        arguments = work.arguments
        if isinstance(work.many, NativeInFlight):
            arguments = work.many.prepare(arguments)
        self.arguments = tuple(arguments)
        self.due = due
        self.answers: list[object] = []
        """Answers of the operations that are done."""

    @property
    def done(self) -> int:
        return len(self.answers)

    @property
    def left(self) -> int:
        return len(self.arguments) - len(self.answers)


class InputQueue:
    """The next slices of a client: the slices of round 0, and if the queue is `endless`, those of further rounds.

    With `ordered`, the inputs of a round depend on the answers of earlier rounds, so a round begins only when these
    are checked.
    """

    def __init__(
        self,
        rounds: Rounds,
        endless: bool = False,
        ordered: bool = False,
        arrivals: Arrivals | None = None,
        slice_type: Callable[[Operations, Times | None], Slice] = Slice,
    ) -> None:
        self._rounds = rounds
        self._endless = endless
        self._ordered = ordered
        self._arrivals = arrivals
        self._slice_type = slice_type
        self._number = 0
        self._slices: Iterator[Work] | None = None
        self._round_has_work = False
        self.over = False
        self.waiting: list[Slice | Bulk] = []

    @property
    def operations(self) -> int:
        return sum(one.left if isinstance(one, Slice) else 1 for one in self.waiting)

    @property
    def holds_endless_work(self) -> bool:
        return any(isinstance(one, Slice) and one.work.endless for one in self.waiting)

    def load(self, enough: Callable[[], bool]) -> None:
        """Builds slices until there are enough, or until no more can be built now. A bulk call is queued alone."""
        while not self.over and not any(isinstance(one, Bulk) for one in self.waiting) and not enough():
            if self._slices is None:
                self._slices = self._rounds(self._number)
            work = next(self._slices, None)
            if isinstance(work, Reported):
                raise TypeError("only a phase that is declared `reported` may have reported work")
            if isinstance(work, Bulk):
                # The first items are built here rather than in measured time.
                first = next(work.feed, ())
                self.waiting.append(replace(work, feed=chain([first] if first else (), work.feed)))
            elif work is not None:
                due = None
                if self._arrivals is not None:
                    due = self._arrivals.take(len(work.arguments))
                self.waiting.append(self._slice_type(work, due))
            elif not self._endless or not self._round_has_work:
                self.over = True
            elif self._ordered and self.waiting:
                return
            else:
                self.close()
                self._number += 1
            self._round_has_work = work is not None

    def load_due(self, moment_ns: int, most: int, full: Callable[[], bool]) -> None:
        """Builds an open loop's slices that are due by a moment of the phase, as far as `most` operations suffice,
        and none when it is `full`."""
        arrivals = self._arrivals
        assert arrivals is not None
        self.load(lambda: arrivals.last_ns > moment_ns or self.operations >= most or (self.operations > 0 and full()))

    def take_due(self, moment_ns: int) -> int:
        """Returns how many operations of an open loop that were not done were due by a moment of the phase, in slices
        or not. Nothing can be loaded after it."""
        slices = [one for one in self.waiting if isinstance(one, Slice)]
        built = sum(int((one.due[one.done :] <= moment_ns).sum()) for one in slices if one.due is not None)
        return built + (0 if self._arrivals is None else self._arrivals.take_until(moment_ns))

    @property
    def horizon_ns(self) -> int:
        """The time of the phase up to which an open loop's slices were built."""
        arrivals = self._arrivals
        if self.over or arrivals is None or not arrivals.last_ns:
            return FOREVER_NS
        return arrivals.last_ns

    def close(self) -> None:
        """Closes the generator of slices. A transaction that the generator holds open is then left here rather than
        by the garbage collector."""
        slices, self._slices = self._slices, None
        if isinstance(slices, Generator):
            slices.close()


class HeldTransaction:
    """A client's transaction around several slices, entered by the first of them."""

    def __init__(self) -> None:
        self._context: AbstractContextManager[object] | None = None
        self._entered: object = None

    def enter(self, context: AbstractContextManager[object] | None) -> object:
        """Leaves the current context and enters this one, unless it is already the current one. Returns the value
        that the context yielded."""
        if context is not self._context:
            self.leave()
            if context is not None:
                self._entered, self._context = context.__enter__(), context
        return self._entered

    def leave(self) -> bool:
        """Leaves the transaction. Returns whether one was open."""
        context = self._context
        self._context = None
        self._entered = None
        if context is not None:
            context.__exit__(None, None, None)
        return context is not None

    def opens(self, work: Operations) -> bool:
        """Returns whether the slice has to open a transaction."""
        return work.held is not self._context or work.around is not nullcontext


class LoopResult(NamedTuple):
    """Timings of a slice, or of a part of it. Moments are in ns on the loop's own clock."""

    first: int
    """The position of its first operation in the slice."""
    answers: list[object]
    stamps: Resolvable
    failures: list[Failure]
    transaction_ns: int
    """Time for entering and leaving the transaction around the slice. It is the engine's time, but is in no span."""
    begun: int
    """Moment before the transaction is entered. The time from `begun` to `over` consists of the spans, the loop's own
    time between them, the waits for due operations, and transaction_ns."""
    entered: int
    """When the transaction had been entered. No operation could start earlier."""
    over: int

    def times(self) -> tuple[Times, Times]:
        """Returns when each operation began and ended. Computed on demand, since another slice may follow at once."""
        return resolve_stamps(self.stamps)


def run_slice(
    loop: Loop, slice_: Slice, deadline: int, held: HeldTransaction, origin: int = 0, start: int = 0
) -> LoopResult:
    """Runs the rest of a slice, beginning at `start`. Stops after the first operation that ends after the deadline.

    The times at which operations are due count from `origin`; a negative time is overdue.
    """
    failures: list[Failure] = []

    def record_failure(error: Exception) -> Failure:
        failures.append(Failure.from_error(error))
        return failures[-1]

    work = slice_.work
    first = slice_.done
    now = loop.now
    if first:
        arguments = slice_.arguments[first:]
    else:
        arguments = slice_.arguments
    due = slice_.due
    # If no transaction has to be opened, the loop itself waits for the start, so that all preparation is done by
    # then.
    waits = due is None and start > 0 and not held.opens(work)
    while start and not waits and now() < start:
        pass
    begun = start if waits else now()
    transaction = held.enter(work.held)
    with work.around() as own:
        entered = begun if waits else now()
        calls = tuple(work.calls(own if work.held is None else transaction))
        # Rotate the callables so that operation `first` gets the right one.
        if calls and (at := first % len(calls)):
            calls = (*calls[at:], *calls[:at])
        if due is None:
            answers, stamps = loop.closed(calls, arguments, deadline, record_failure, start if waits else 0)
        else:
            answers, stamps = loop.paced(calls, arguments, due[first:] + origin, deadline, record_failure)
        leaving = now()
    over = now()
    if first:
        slice_.answers = slice_.answers + answers
    else:
        slice_.answers = answers
    return LoopResult(first, answers, stamps, failures, entered - begun + over - leaving, begun, entered, over)
