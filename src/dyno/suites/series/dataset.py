"""Samples of a trial, as batches in the order of arrival and by variable, and the model of the archive's expected
contents.

`facility` generates samples. `pb_files` reads them from an archive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dyno.suites.series.facility import HALF_HOUR, LATE, RESENT, START, Facility, Longs
from dyno.suites.series.port import DTYPES, FIELDS, SampleBatch, Samples
from dyno.suites.series.samples import Digest

CORRECTION = 1.0
"""Number that a correction adds to the value of a sample."""
MAX_LATE = 20
"""Maximum number of batches by which a sample is late, or after which it arrives again."""


class Arrival(NamedTuple):
    """A batch of samples that arrive together."""

    batch: SampleBatch
    new: int
    """Number of new samples in the batch. Only these are counted."""
    replaced: SampleBatch | None
    """The stored samples that the batch's other samples replace."""


class Dataset(Protocol):
    """The samples that a trial inserts and must read back. Times are whole ns since 1970."""

    names: list[str]
    total: int
    """Number of samples, not counting repetitions."""
    start: int
    end: int
    """All times are in [start, end). Both are whole minutes."""

    def arrivals(self) -> Iterator[Arrival]:
        """Yields all batches in the order of arrival."""

    def further(self, batches: int) -> Iterator[Arrival]:
        """Yields batches to insert after all others. The last sample of each is new."""

    def one(self, pv: int) -> Samples:
        """Returns the expected samples of a variable after all batches have arrived."""


@dataclass(frozen=True)
class ArrivalPattern:
    """Pattern in which samples arrive."""

    batch: int
    """Approximate number of samples per batch. A batch has whole ticks of all variables."""
    late: int
    """Number of late samples per million."""
    resent: int
    """Number of samples per million that arrive twice unchanged."""
    corrected: int
    """Number of samples per million that arrive again with another value."""


@dataclass
class Model:
    """Expected contents of the archive after the batches so far."""

    dataset: Dataset
    judged: bool = True
    """False for a null engine, whose answers are not checked."""
    digest: Digest = field(default_factory=Digest)
    batches: int = 0
    samples: int = 0
    _latest: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return self.samples >= self.dataset.total

    def add(self, arrival: Arrival) -> None:
        """Adds an acknowledged batch."""
        self.batches += 1
        self.samples += arrival.new
        if not self.judged:
            return
        self.digest.add(arrival.batch)
        if arrival.replaced is not None:
            self.digest.add(arrival.replaced, -1)
        batch, latest, count = arrival.batch, self._latest, len(self.dataset.names)
        if not latest:
            latest.update({name: np.zeros(count, DTYPES[name]) for name in FIELDS[1:]}, ts=np.full(count, -1, "i8"))
        order = np.lexsort((batch.ts, batch.pv))
        pv = batch.pv[order]
        last = order[np.append(pv[1:] != pv[:-1], True)]
        # A sample with the same time as the previous one replaces it.
        last = last[batch.ts[last] >= latest["ts"][batch.pv[last]]]
        for name in FIELDS[1:]:
            latest[name][batch.pv[last]] = getattr(batch, name)[last]

    def latest(self) -> SampleBatch:
        """Returns the sample with the greatest time of each variable that has samples."""
        pv = np.flatnonzero(self._latest["ts"] >= 0).astype("i4")
        return SampleBatch(pv, *(self._latest[name][pv] for name in FIELDS[1:]))


class SyntheticDataset:
    """Half-hours of a simulated facility, see `Dataset`."""

    def __init__(self, facility: Facility, half_hours: int, pattern: ArrivalPattern) -> None:
        self._facility, self._pattern = facility, pattern
        self.names = facility.names
        self._variables = len(self.names)
        self._ticks = half_hours * facility.per_half_hour
        self.total = self._ticks * self._variables
        self.start, self.end = START, START + half_hours * HALF_HOUR
        self._step = max(round(pattern.batch / self._variables), 1)

    def arrivals(self) -> Iterator[Arrival]:
        """Yields batches tick by tick, with all variables in each. Late and resent samples come before those on
        time."""
        waiting: dict[int, list[_Selection]] = defaultdict(list)
        starts = range(0, self._ticks, self._step)
        for number, start in enumerate(starts):
            fresh, late, again = self._sent(range(start, min(start + self._step, self._ticks)))
            for after, selection in (*late.items(), *again.items()):
                waiting[number + after].append(selection)
            yield self._arrival([*waiting.pop(number, ()), fresh])
        # Yield the rest at the end, late samples first: some of the resent samples may be repetitions of these.
        rest = [selection for number in sorted(waiting) for selection in waiting[number]]
        for resent in (False, True):
            if parts := [selection for selection in rest if selection.again is resent]:
                yield self._arrival(parts)

    def further(self, batches: int) -> Iterator[Arrival]:
        """Yields batches whose samples are all on time."""
        for number in range(batches):
            start = self._ticks + number * self._step
            yield self._arrival([_Selection(*self._of(range(start, start + self._step)))])

    def one(self, pv: int) -> Samples:
        tick = np.arange(self._ticks, dtype=np.int64)
        variable = np.full(self._ticks, pv, np.int64)
        batch = self._facility.samples(variable, tick)
        batch.val[self._corrected(variable, tick)] += CORRECTION
        return Samples(*batch[1:])

    def _of(self, ticks: range) -> tuple[Longs, Longs]:
        pv = np.tile(np.arange(self._variables, dtype=np.int64), len(ticks))
        return pv, np.repeat(np.arange(ticks.start, ticks.stop, dtype=np.int64), self._variables)

    def _sent(self, ticks: range) -> tuple[_Selection, dict[int, _Selection], dict[int, _Selection]]:
        """Returns three selections of these ticks' samples: those on time, late ones, and those that arrive again.
        The last two are dicts by the number of batches after which the samples arrive."""
        (pv, tick), facility, pattern = self._of(ticks), self._facility, self._pattern
        late = facility.delays(LATE, pv, tick, MAX_LATE, pattern.late)
        resent = facility.delays(RESENT, pv, tick, MAX_LATE, pattern.resent)
        # Corrections arrive one batch later than the last resent sample.
        again = np.where(self._corrected(pv, tick), MAX_LATE + 1, resent)
        # A late sample arrives again only after its first arrival.
        again = np.where(again > 0, again + late, 0)

        def by_delay(delays: Longs, repeated: bool) -> dict[int, _Selection]:
            after = np.unique(delays[delays > 0]).tolist()
            return {each: _Selection(pv[delays == each], tick[delays == each], repeated) for each in after}

        return _Selection(pv[late == 0], tick[late == 0]), by_delay(late, False), by_delay(again, True)

    def _corrected(self, pv: Longs, tick: Longs) -> NDArray[np.bool_]:
        return self._facility.corrected(pv, tick, self._pattern.corrected)

    def _arrival(self, parts: Sequence[_Selection]) -> Arrival:
        pv, tick = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
        again = np.concatenate([np.full(len(part.pv), part.again) for part in parts])
        batch = self._facility.samples(pv, tick)
        if not again.any():
            return Arrival(batch, len(pv), None)
        replaced = SampleBatch(*(values[again] for values in batch))
        batch.val[again & self._corrected(pv, tick)] += CORRECTION
        return Arrival(batch, int((~again).sum()), replaced)


class _Selection(NamedTuple):
    """Samples by variable and tick, and whether they have arrived before."""

    pv: Longs
    tick: Longs
    again: bool = False
