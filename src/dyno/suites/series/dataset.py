"""Samples of a trial: a simulated facility, its samples as batches in the order of arrival and by variable, and the
model of the archive's expected contents. `pb_files` reads samples from an archive instead.

A simulated sample depends only on the seed, its variable and its number, so that each can be computed without the
others. There are four groups of 1, 10, 100 and 1,000 variables, as in the published test. A variable has slow drifts,
steps, noise and the resolution of its converter, alarms when its value leaves its limits, disconnected intervals, and
gaps without samples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dyno.suites.series.port import DTYPES, FIELDS, SampleBatch, Samples
from dyno.suites.series.samples import Digest

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Bits = NDArray[np.uint64]
GROUPS = (1, 10, 100, 1_000)
SECOND = 1_000_000_000
HALF_HOUR = 1_800 * SECOND
START = 1_256_601_600 * SECOND
"""Start of the samples: the day of the published test, 2009-10-27, 00:00 UTC."""

# Alarm status and severity, as in alarm.h of EPICS.
NO_ALARM = 0
HIHI = 3
HIGH = 4
LOLO = 5
LOW = 6
COMM = 9
MINOR = 1
MAJOR = 2
INVALID = 3

_GAP_SHARE = 4
"""One in so many half-hours of a variable has a gap."""
_GAP_S = (20, 200)
_LOST_SHARE, _LOST_SAMPLES = 400, 64
"""One in 400 runs of 64 samples is disconnected."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Purposes of random numbers. Numbers for different purposes are independent of each other.
_VALUE, _TIME, _GAP, _STEP, _LOST, _TRAITS, RESENT, _CORRECTED, LATE = range(1, 10)


class Facility:
    """A number of variables with `samples` samples each per half-hour."""

    def __init__(self, seed: int, variables: int, samples: int) -> None:
        self.names = [_name(number) for number in range(variables)]
        self.per_half_hour = samples
        self._seed = np.uint64(seed)
        self._traits = _traits(self._random(np.arange(variables), np.zeros(variables, np.int64), _TRAITS))

    def samples(self, pv: Longs, tick: Longs) -> SampleBatch:
        """Returns the samples of these variables and ticks. Ticks of a variable count from 0."""
        traits = self._traits
        drawn = self._random(pv, tick, _VALUE)
        # The sum of two uniform numbers, scaled to -1 to 1, which is mostly near 0.
        noise = ((drawn & np.uint64(0xFFFFFFFF)) + (drawn >> np.uint64(32))).astype(np.float64) / 2.0**32 - 1
        step = (self._random(pv, tick // traits.step_ticks[pv], _STEP) % np.uint64(5)).astype(np.int64) - 2
        drift = np.sin(tick * traits.slow[pv] + traits.phase[pv]) + 0.3 * np.sin(tick * traits.slower[pv])
        at = traits.drifts[pv] * drift + traits.steps[pv] * step + traits.noisy[pv] * noise
        count = np.rint(at * traits.counts[pv])
        value = traits.offset[pv] + count * traits.resolution[pv]
        lost = self._random(pv, tick // _LOST_SAMPLES, _LOST) % np.uint64(_LOST_SHARE) == 0
        limit = traits.limit[pv]
        cases = [lost, at > 1.1 * limit, at > limit, at < -1.1 * limit, at < -limit]
        stat = np.select(cases, [COMM, HIHI, HIGH, LOLO, LOW], NO_ALARM).astype("i2")
        sevr = np.select(cases, [INVALID, MAJOR, MINOR, MAJOR, MINOR], NO_ALARM).astype("i2")
        return SampleBatch(pv.astype("i4"), self.times(pv, tick), value, stat, sevr)

    def times(self, pv: Longs, tick: Longs) -> Longs:
        """Returns times in ns, each random within the sample's period, and later after a gap in the half-hour."""
        half, number = np.divmod(tick, self.per_half_hour)
        drawn = self._random(pv, half, _GAP)
        least, most = _GAP_S
        gap_s = least + (drawn >> np.uint64(40)).astype(np.int64) % (most - least)
        gap = np.where(drawn % np.uint64(_GAP_SHARE) == 0, gap_s * SECOND, 0)
        begins = (drawn >> np.uint64(8)).astype(np.int64) % self.per_half_hour
        period = (HALF_HOUR - gap) // self.per_half_hour
        within = (self._random(pv, tick, _TIME) >> np.uint64(11)).astype(np.int64) % period
        at: Longs = START + half * HALF_HOUR + number * period + np.where(number >= begins, gap, 0) + within
        return at

    def delays(self, purpose: int, pv: Longs, tick: Longs, most: int, of_million: int) -> Longs:
        """Returns the number of batches by which each sample is late (LATE), or after which it arrives again
        (RESENT): 0 for most samples, or from 1 to `most`."""
        drawn = self._random(pv, tick, purpose)
        delayed = drawn % np.uint64(1_000_000) < np.uint64(of_million)
        return np.where(delayed, 1 + (drawn >> np.uint64(32)).astype(np.int64) % most, 0)

    def is_corrected(self, pv: Longs, tick: Longs, of_million: int) -> NDArray[np.bool_]:
        """Returns whether each sample has another value when it arrives again."""
        return self._random(pv, tick, _CORRECTED) % np.uint64(1_000_000) < np.uint64(of_million)

    def _random(self, pv: Longs, number: Longs, purpose: int) -> Bits:
        """Returns 64 random bits for each sample."""
        mixed = _mix_bits(pv.astype(np.uint64) + (self._seed << np.uint64(24)) + np.uint64(purpose << 56))
        return _mix_bits(mixed + number.astype(np.uint64) * _GOLDEN)


def _traits(drawn: Bits) -> SimpleNamespace:
    """Returns the behaviour of each variable, around 0 with a magnitude of 1, scaled at the end."""

    def fraction(shift: int) -> Floats:
        return ((drawn >> np.uint64(shift)) & np.uint64(255)).astype(np.float64) / 255

    kind = (drawn % np.uint64(4)).astype(np.int64)
    # Four kinds of variables: a read-back that drifts, a set-point that steps, a noisy monitor, and a calculated
    # variable.
    of_kind = (1, 0, 0.4, 0.8), (0, 0.3, 0, 0.2), (0.01, 0, 0.5, 0.1)
    drifts, steps, noisy = (np.array(factors)[kind] for factors in of_kind)
    # Converters have 16 bits. Calculated variables have almost all digits of a double.
    counts = np.where(kind == 3, 2.0**40, 2.0**15)
    scale = 10.0 ** np.rint(fraction(8) * 6 - 2)
    return SimpleNamespace(
        drifts=drifts,
        steps=steps,
        noisy=noisy,
        step_ticks=200 + (fraction(16) * 2_000).astype(np.int64),
        slow=2 * np.pi / (2_000 + 20_000 * fraction(24)),
        slower=2 * np.pi / (50_000 + 200_000 * fraction(32)),
        phase=2 * np.pi * fraction(40),
        limit=0.5 + fraction(48),
        offset=np.rint(fraction(56) * 100) * scale,
        counts=counts,
        resolution=scale / counts,
    )


def _name(number: int) -> str:
    """Returns a name by an EPICS naming convention: group, cell, kind of device, number, signal."""
    group, first = 0, 0
    while group < len(GROUPS) - 1 and number >= first + GROUPS[group]:
        first += GROUPS[group]
        group += 1
    return f"G{group + 1}:C{number % 24:02d}-MG{{PS:{number - first:05d}}}I-RB"


def _mix_bits(values: Bits) -> Bits:
    """Mixes bits by the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


# -- batches and their model ------------------------------------------------------------------------------------

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

    def further_batches(self, batches: int) -> Iterator[Arrival]:
        """Yields batches to insert after all others. The last sample of each is new."""

    def one(self, pv: int) -> Samples:
        """Returns the expected samples of a variable after all batches have arrived."""


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
        self.batches += 1
        self.samples += arrival.new
        if not self.judged:
            return
        self.digest.add(arrival.batch)
        if arrival.replaced is not None:
            self.digest.add(arrival.replaced, -1)
        batch = arrival.batch
        latest = self._latest
        count = len(self.dataset.names)
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
    """Half-hours of a simulated facility, see `Dataset`. `batch`: approximate samples of a batch, which has whole
    ticks of all variables. The others are samples per million that are late, arrive twice unchanged, or arrive again
    with another value."""

    def __init__(
        self, facility: Facility, half_hours: int, batch: int, late: int, resent: int, corrected: int
    ) -> None:
        self._facility = facility
        self._late = late
        self._resent = resent
        self._corrected = partial(facility.is_corrected, of_million=corrected)
        self.names = facility.names
        self._variables = len(self.names)
        self._ticks = half_hours * facility.per_half_hour
        self.total = self._ticks * self._variables
        self.start, self.end = START, START + half_hours * HALF_HOUR
        self._step = max(round(batch / self._variables), 1)

    def arrivals(self) -> Iterator[Arrival]:
        """Yields batches tick by tick, with all variables in each. Late and resent samples come first."""
        waiting: dict[int, list[_Selection]] = defaultdict(list)
        starts = range(0, self._ticks, self._step)
        for number, start in enumerate(starts):
            fresh, late, again = self._select_sent(range(start, min(start + self._step, self._ticks)))
            for after, selection in (*late.items(), *again.items()):
                waiting[number + after].append(selection)
            yield self._arrival([*waiting.pop(number, ()), fresh])
        # Yield the rest at the end, late samples first: some of the resent samples may be repetitions of these.
        rest = [selection for number in sorted(waiting) for selection in waiting[number]]
        for resent in (False, True):
            if parts := [selection for selection in rest if selection.again is resent]:
                yield self._arrival(parts)

    def further_batches(self, batches: int) -> Iterator[Arrival]:
        """Yields batches whose samples are all on time."""
        for number in range(batches):
            start = self._ticks + number * self._step
            yield self._arrival([_Selection(*self._pairs_of(range(start, start + self._step)))])

    def one(self, pv: int) -> Samples:
        tick = np.arange(self._ticks, dtype=np.int64)
        variable = np.full(self._ticks, pv, np.int64)
        batch = self._facility.samples(variable, tick)
        batch.val[self._corrected(variable, tick)] += CORRECTION
        return Samples(*batch[1:])

    def _pairs_of(self, ticks: range) -> tuple[Longs, Longs]:
        pv = np.tile(np.arange(self._variables, dtype=np.int64), len(ticks))
        return pv, np.repeat(np.arange(ticks.start, ticks.stop, dtype=np.int64), self._variables)

    def _select_sent(self, ticks: range) -> tuple[_Selection, dict[int, _Selection], dict[int, _Selection]]:
        """Returns three selections of these ticks' samples: those on time, late ones, and those that arrive again.
        The last two are dicts by the number of batches after which the samples arrive."""
        (pv, tick), facility = self._pairs_of(ticks), self._facility
        late = facility.delays(LATE, pv, tick, MAX_LATE, self._late)
        resent = facility.delays(RESENT, pv, tick, MAX_LATE, self._resent)
        # Corrections arrive one batch later than the last resent sample.
        again = np.where(self._corrected(pv, tick), MAX_LATE + 1, resent)
        # A late sample arrives again only after its first arrival.
        again = np.where(again > 0, again + late, 0)

        def by_delay(delays: Longs, repeated: bool) -> dict[int, _Selection]:
            after = np.unique(delays[delays > 0]).tolist()
            return {each: _Selection(pv[delays == each], tick[delays == each], repeated) for each in after}

        return _Selection(pv[late == 0], tick[late == 0]), by_delay(late, False), by_delay(again, True)

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
