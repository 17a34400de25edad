"""One slice through a loop: its transaction around it, its stamps as arrays afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.suite import Failure, Operations
from dyno.measure.loops import Loop, Stamps, resolved

Times = NDArray[np.int64]


class HeldTransaction:
    """The transaction of a client that holds several slices: entered by the first of them."""

    def __init__(self) -> None:
        self._context: AbstractContextManager[Any] | None = None
        self._entered: Any = None

    def enter(self, wanted: AbstractContextManager[Any] | None) -> Any:
        """What the context yielded when it was entered; another one that was held before is left."""
        if wanted is not self._context:
            self.leave()
            if wanted is not None:
                self._entered, self._context = wanted.__enter__(), wanted
        return self._entered

    def leave(self) -> bool:
        """Whether there was one to leave."""
        context, self._context, self._entered = self._context, None, None
        if context is not None:
            context.__exit__(None, None, None)
        return context is not None

    def opens(self, work: Operations) -> bool:
        """Whether a transaction has to be opened for it."""
        return work.held is not self._context or work.around is not nullcontext


class Slice:
    """A slice on its way: how far it is done, which may take several flights."""

    def __init__(self, work: Operations, due: Times | None = None) -> None:
        self.work, self.arguments, self.due = work, tuple(work.arguments), due
        self.answers: list[Any] = []
        """Of what is done, until the check has had them."""

    @property
    def done(self) -> int:
        return len(self.answers)

    @property
    def left(self) -> int:
        return len(self.arguments) - len(self.answers)


class Timed(NamedTuple):
    """What a loop saw of a slice, or of a stretch of it. Moments are in ns on the loop's own clock."""

    first: int
    """The number of its first operation in the slice."""
    answers: list[Any]
    stamps: Stamps
    failures: list[Failure]
    transaction_ns: int
    """Entering and leaving the transaction around the slice: the engine's time, and in no span."""
    begun: int
    """Before the transaction is entered: from there to `over` are every span, the loop's own time between spans,
    waiting for what is due, and transaction_ns."""
    entered: int
    """When the transaction had been entered: no operation was free to start before."""
    over: int

    def times(self) -> tuple[Times, Times]:
        """When each operation began and ended. Not worked out before it is asked for: another slice may follow."""
        return resolved(self.stamps)


def timed(loop: Loop, parcel: Slice, deadline: int, held: HeldTransaction, origin: int = 0, start: int = 0) -> Timed:
    """Runs what is left of a slice, from `start` on, up to the first operation that ends after the deadline.

    Operations that are due at a moment are due so many ns after `origin`; negative is overdue.
    """
    failures: list[Failure] = []

    def failed(error: Exception) -> Failure:
        failures.append(Failure.of(error))
        return failures[-1]

    work, first, now = parcel.work, parcel.done, loop.now
    arguments = parcel.arguments[first:] if first else parcel.arguments
    due = parcel.due
    # The loop waits for the start: all that comes before it is done by then.
    waits = due is None and start > 0 and not held.opens(work)
    while start and not waits and now() < start:
        pass
    begun = start if waits else now()
    kept = held.enter(work.held)
    with work.around() as own:
        entered = begun if waits else now()
        calls = _from(work.calls(own if work.held is None else kept), first)
        if due is None:
            answers, stamps = loop.closed(calls, arguments, deadline, failed, start if waits else 0)
        else:
            answers, stamps = loop.paced(calls, arguments, due[first:] + origin, deadline, failed)
        leaving = now()
    over = now()
    parcel.answers = parcel.answers + answers if first else answers
    return Timed(first, answers, stamps, failures, entered - begun + over - leaving, begun, entered, over)


def _from(calls: Sequence[Callable[[Any], Any]], first: int) -> tuple[Callable[[Any], Any], ...]:
    """Those of a slice's operations, which take them in turn, from operation `first` on."""
    at = first % len(calls) if calls else 0
    return (*calls[at:], *calls[:at]) if at else tuple(calls)
