"""What a client is to do next: its slices, built ahead of their flight, and what a flight left undone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from itertools import chain

from dyno.contracts.suite import Bulk, Reported, Work
from dyno.measure.arrivals import Arrivals
from dyno.measure.slices import Slice

Rounds = Callable[[int], Iterator[Work]]


class InputQueue:
    """The slices of round 0, and of further rounds where it is `endless`, for as long as there are any.

    `ordered`: the inputs of a round depend on the answers of those before, so that it is begun when they are judged.
    """

    def __init__(
        self, rounds: Rounds, endless: bool = False, ordered: bool = False, arrivals: Arrivals | None = None
    ) -> None:
        self._rounds, self._endless, self._ordered, self._arrivals = rounds, endless, ordered, arrivals
        self._number = 0
        self._slices: Iterator[Work] | None = None
        self._some = False
        """Whether the round has had a slice."""
        self.over = False
        self.waiting: list[Slice | Bulk] = []

    @property
    def operations(self) -> int:
        return sum(one.left if isinstance(one, Slice) else 1 for one in self.waiting)

    def load(self, enough: Callable[[], bool]) -> None:
        """Builds slices until there are enough, or all that can be built now. A bulk call flies alone."""
        while not self.over and not any(isinstance(one, Bulk) for one in self.waiting) and not enough():
            if self._slices is None:
                self._slices = self._rounds(self._number)
            work = next(self._slices, None)
            if work is None and not self._next_round():
                return
            if work is not None:
                self._some = True
                self.waiting.append(self._parcel(work))

    def _parcel(self, work: Work) -> Slice | Bulk:
        if isinstance(work, Reported):
            raise TypeError("only a phase that is declared so is reported")
        if isinstance(work, Bulk):
            return built(work)
        due = None if self._arrivals is None else self._arrivals.take(len(work.arguments))
        return Slice(work, due)

    def _next_round(self) -> bool:
        """Whether another one has begun."""
        if not self._endless or not self._some:
            self.over = True
            return False
        if self._ordered and self.waiting:
            return False
        self.close()
        self._number, self._some = self._number + 1, False
        return True

    def close(self) -> None:
        """What a generator of slices holds open, a transaction perhaps, is left now and not with the garbage."""
        slices, self._slices = self._slices, None
        if isinstance(slices, Generator):
            slices.close()


def built(work: Bulk) -> Bulk:
    """With its items too, of which a bulk phase builds the first slice when asked."""
    first = next(work.feed, ())
    return replace(work, feed=chain([first] if first else (), work.feed))
