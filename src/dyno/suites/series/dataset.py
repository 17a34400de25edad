"""The samples of a trial: in the order in which they arrive, batch by batch, and variable by variable as they must be
found again. What a dataset is made of, a machine that is made up or files of an archive, is in modules of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dyno.suites.series.facility import HALF_HOUR, START, Facility
from dyno.suites.series.port import SampleBatch, Samples

CORRECTION = 1.0
"""By how much a sample that comes again with another value is higher."""
MOST_LATE = 20
"""Batches, at most, by which a sample is late, or after which it comes again."""


class Arrival(NamedTuple):
    """A batch as it comes in."""

    batch: SampleBatch
    new: int
    """How many of its samples are not there yet: these are what is counted."""
    replaced: SampleBatch | None
    """What those take the place of that are there already."""


class Dataset(Protocol):
    """What a trial inserts, and what it must find. Times are whole ns since 1970."""

    names: list[str]
    total: int
    """Samples, each counted once."""
    start: int
    end: int
    """Every time is from start on and before end, both whole minutes."""

    def arrivals(self) -> Iterator[Arrival]:
        """All of it."""

    def further(self, batches: int) -> Iterator[Arrival]:
        """What comes after it: so many batches, the last sample of each a new one."""

    def one(self, pv: int) -> Samples:
        """All samples of a variable, as they must be once all has arrived."""


@dataclass(frozen=True)
class ArrivalPattern:
    """How samples come in."""

    batch: int
    """About so many of them in a batch: whole ticks of all variables."""
    late: int
    """Of a million."""
    resent: int
    """Of a million, those that arrive twice."""
    corrected: int
    """Of a million, those that arrive twice, and have another value the second time."""


class SyntheticDataset:
    """So many half-hours of a machine that is made up. See `Dataset`."""

    def __init__(self, machine: Facility, half_hours: int, way: ArrivalPattern) -> None:
        self._machine, self._way = machine, way
        self.names = machine.names
        self._variables = len(self.names)
        self._ticks = half_hours * machine.per_half_hour
        self.total = self._ticks * self._variables
        self.start, self.end = START, START + half_hours * HALF_HOUR
        self._step = max(round(way.batch / self._variables), 1)

    def arrivals(self) -> Iterator[Arrival]:
        """Tick by tick, all variables in each; what is late, or comes again, before what is in time."""
        waiting: dict[int, list[_Selection]] = defaultdict(list)
        starts = range(0, self._ticks, self._step)
        for number, start in enumerate(starts):
            fresh, late, again = self._sent(range(start, min(start + self._step, self._ticks)))
            for after, some in late.items():
                waiting[number + after].append(some)
            for after, some in again.items():
                waiting[number + after].append(some)
            yield self._arrival([*waiting.pop(number, ()), fresh])
        # The rest at once: what is late, and then what comes again, which may be one of these.
        rest = [some for number in sorted(waiting) for some in waiting[number]]
        for resent in (False, True):
            if parts := [some for some in rest if some.again is resent]:
                yield self._arrival(parts)

    def further(self, batches: int) -> Iterator[Arrival]:
        """All in time."""
        for number in range(batches):
            start = self._ticks + number * self._step
            yield self._arrival([_Selection(*self._of(range(start, start + self._step)))])

    def one(self, pv: int) -> Samples:
        tick = np.arange(self._ticks, dtype=np.int64)
        found = self._machine.samples(np.full(self._ticks, pv, np.int64), tick)
        changed = self._corrected(np.full(self._ticks, pv, np.int64), tick)
        found.val[changed] += CORRECTION
        return Samples(*found[1:])

    def _of(self, ticks: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        pv = np.tile(np.arange(self._variables, dtype=np.int64), len(ticks))
        return pv, np.repeat(np.arange(ticks.start, ticks.stop, dtype=np.int64), self._variables)

    def _sent(self, ticks: range) -> tuple[_Selection, dict[int, _Selection], dict[int, _Selection]]:
        """What of these ticks is in time; what comes later, and what again, by how many batches."""
        pv, tick = self._of(ticks)
        late = self._machine.late(pv, tick, MOST_LATE, self._way.late)
        again = self._again(pv, tick)
        # What is late comes again after it has come.
        again = np.where(again > 0, again + late, 0)
        by_late = {
            int(after): _Selection(pv[late == after], tick[late == after]) for after in np.unique(late[late > 0])
        }
        by_again = {
            int(after): _Selection(pv[again == after], tick[again == after], True)
            for after in np.unique(again[again > 0])
        }
        return _Selection(pv[late == 0], tick[late == 0]), by_late, by_again

    def _again(self, pv: NDArray[np.int64], tick: NDArray[np.int64]) -> NDArray[np.int64]:
        resent = self._machine.resent(pv, tick, MOST_LATE, self._way.resent)
        # A correction comes a batch later, so that it is not the one that came again.
        return np.where(self._corrected(pv, tick), MOST_LATE + 1, resent)

    def _corrected(self, pv: NDArray[np.int64], tick: NDArray[np.int64]) -> NDArray[np.bool_]:
        return self._machine.corrected(pv, tick, self._way.corrected)

    def _arrival(self, parts: Sequence[_Selection]) -> Arrival:
        pv, tick = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        again = np.concatenate([np.full(len(part.pv), part.again) for part in parts])
        batch = self._machine.samples(pv, tick)
        if not again.any():
            return Arrival(batch, len(pv), None)
        replaced = SampleBatch(*(values[again] for values in batch))
        batch.val[again & self._corrected(pv, tick)] += CORRECTION
        return Arrival(batch, int((~again).sum()), replaced)


class _Selection(NamedTuple):
    """Samples by variable and number, and whether they are there already."""

    pv: NDArray[np.int64]
    tick: NDArray[np.int64]
    again: bool = False
