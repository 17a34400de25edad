"""One slice through a loop: its transaction around it, its stamps as arrays afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyno.measure.loops import Loop, resolved
from dyno.suite import Failure, Operations

Times = NDArray[np.int64]


class Held:
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


class Parcel:
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
    starts: Times
    ends: Times
    failures: list[Failure]
    transaction_ns: int
    """Entering and leaving the transaction around the slice: the engine's time, and in no span."""
    begun: int
    """Before the transaction is entered: from there to `over` are every span, the loop's own time between spans,
    waiting for what is due, and transaction_ns."""
    entered: int
    """When the transaction had been entered: no operation was free to start before."""
    over: int


def timed(loop: Loop, parcel: Parcel, deadline: int, held: Held, origin: int = 0) -> Timed:
    """Runs what is left of a slice, up to the first operation that ends after the deadline.

    Operations that are due at a moment are due so many ns after `origin`; negative is overdue.
    """
    failures: list[Failure] = []

    def failed(error: Exception) -> Failure:
        failures.append(Failure.of(error))
        return failures[-1]

    work, first, now = parcel.work, parcel.done, loop.now
    arguments = parcel.arguments[first:] if first else parcel.arguments
    begun = now()
    kept = held.enter(work.held)
    with work.around() as own:
        entered = now()
        calls = _from(work.calls(own if work.held is None else kept), first)
        if parcel.due is None:
            answers, stamps = loop.closed(calls, arguments, deadline, failed)
        else:
            answers, stamps = loop.paced(calls, arguments, parcel.due[first:] + origin, deadline, failed)
        leaving = now()
    over = now()
    starts, ends = resolved(stamps)
    parcel.answers += answers
    return Timed(first, answers, starts, ends, failures, entered - begun + over - leaving, begun, entered, over)


def _from(calls: Sequence[Callable[[Any], Any]], first: int) -> tuple[Callable[[Any], Any], ...]:
    """Those of a slice's operations, which take them in turn, from operation `first` on."""
    at = first % len(calls) if calls else 0
    return (*calls[at:], *calls[:at]) if at else tuple(calls)
