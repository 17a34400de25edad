"""The process variables of a machine, made up: each sample follows from the seed, its variable and its number alone,
so that any of them is worked out wherever it is asked for. Never the whole is in memory.

There are four groups, of 1, 10, 100 and 1,000 variables, as in the blocks of the published test. A variable has slow
drifts, steps, noise and the resolution of its converter; alarms where its value leaves its limits; stretches in which
it is disconnected; and gaps in which there is nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyno.suites.series.port import SampleBatch

Longs = NDArray[np.int64]
Bits = NDArray[np.uint64]
GROUPS = (1, 10, 100, 1_000)
SECOND = 1_000_000_000
HALF_HOUR = 1_800 * SECOND
START = 1_256_601_600 * SECOND
"""The day of the published test, 2009-10-27, 00:00 UTC."""

# Of EPICS, alarm.h.
NO_ALARM, HIHI, HIGH, LOLO, LOW, COMM = 0, 3, 4, 5, 6, 9
MINOR, MAJOR, INVALID = 1, 2, 3

_GAP_SHARE = 4
"""One of so many half-hours of a variable has a gap."""
_GAP_S = (20, 200)
_LOST_SHARE, _LOST_SAMPLES = 400, 64
"""One of so many stretches of so many samples is without a connection."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# Apart for each purpose that a random number is drawn for.
_VALUE, _TIME, _GAP, _STEP, _LOST, _ABOUT, _RESENT, _CORRECTED, _LATE = range(1, 10)


class Facility:
    """So many variables with so many samples in each half-hour."""

    def __init__(self, seed: int, variables: int, samples: int) -> None:
        self.names = [_name(number) for number in range(variables)]
        self.per_half_hour = samples
        self._seed = np.uint64(seed)
        self._about = _About.of(self._drawn(np.arange(variables), np.zeros(variables, np.int64), _ABOUT))

    def samples(self, pv: Longs, tick: Longs) -> SampleBatch:
        """Those of these variables and numbers, which are counted from 0 for each variable."""
        about = self._about
        noise = _noise(self._drawn(pv, tick, _VALUE))
        step = (self._drawn(pv, tick // about.step_ticks[pv], _STEP) % np.uint64(5)).astype(np.int64) - 2
        drift = np.sin(tick * about.slow[pv] + about.phase[pv]) + 0.3 * np.sin(tick * about.slower[pv])
        at = about.drifts[pv] * drift + about.steps[pv] * step + about.noisy[pv] * noise
        count = np.rint(at * about.counts[pv])
        value = about.offset[pv] + count * about.resolution[pv]
        stat, sevr = self._alarms(pv, tick, at)
        return SampleBatch(pv.astype("i4"), self.times(pv, tick), value, stat, sevr)

    def _alarms(self, pv: Longs, tick: Longs, at: NDArray[np.float64]) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        lost = self._drawn(pv, tick // _LOST_SAMPLES, _LOST) % np.uint64(_LOST_SHARE) == 0
        limit = self._about.limit[pv]
        cases = [lost, at > 1.1 * limit, at > limit, at < -1.1 * limit, at < -limit]
        stat = np.select(cases, [COMM, HIHI, HIGH, LOLO, LOW], NO_ALARM).astype("i2")
        sevr = np.select(cases, [INVALID, MAJOR, MINOR, MAJOR, MINOR], NO_ALARM).astype("i2")
        return stat, sevr

    def times(self, pv: Longs, tick: Longs) -> Longs:
        """Each sample at a moment of its own within its period; after a gap, where the half-hour has one, later."""
        half, number = np.divmod(tick, self.per_half_hour)
        drawn = self._drawn(pv, half, _GAP)
        least, most = _GAP_S
        gap_s = least + (drawn >> np.uint64(40)).astype(np.int64) % (most - least)
        gap = np.where(drawn % np.uint64(_GAP_SHARE) == 0, gap_s * SECOND, 0)
        begins = (drawn >> np.uint64(8)).astype(np.int64) % self.per_half_hour
        period = (HALF_HOUR - gap) // self.per_half_hour
        within = (self._drawn(pv, tick, _TIME) >> np.uint64(11)).astype(np.int64) % period
        at: Longs = START + half * HALF_HOUR + number * period + np.where(number >= begins, gap, 0) + within
        return at

    # -- what becomes of a sample on its way -------------------------------------------------------------------

    def late(self, pv: Longs, tick: Longs, most: int, of_million: int) -> Longs:
        """By how many batches each is late: 0, or from 1 to `most`."""
        return self._chosen(pv, tick, _LATE, most, of_million)

    def resent(self, pv: Longs, tick: Longs, most: int, of_million: int) -> Longs:
        """After how many batches each comes again: 0 for never."""
        return self._chosen(pv, tick, _RESENT, most, of_million)

    def corrected(self, pv: Longs, tick: Longs, of_million: int) -> NDArray[np.bool_]:
        """Which of them have another value when they come again."""
        return self._drawn(pv, tick, _CORRECTED) % np.uint64(1_000_000) < np.uint64(of_million)

    def _chosen(self, pv: Longs, tick: Longs, purpose: int, most: int, of_million: int) -> Longs:
        drawn = self._drawn(pv, tick, purpose)
        which = drawn % np.uint64(1_000_000) < np.uint64(of_million)
        return np.where(which, 1 + (drawn >> np.uint64(32)).astype(np.int64) % most, 0)

    def _drawn(self, pv: Longs, number: Longs, purpose: int) -> Bits:
        """64 random bits for each."""
        mixed = _mixed(pv.astype(np.uint64) + (self._seed << np.uint64(24)) + np.uint64(purpose << 56))
        return _mixed(mixed + number.astype(np.uint64) * _GOLDEN)


class _About(NamedTuple):
    """Of each variable: how it behaves. Values are worked out around 0, of the size of 1, and scaled at the end."""

    drifts: NDArray[np.float64]
    steps: NDArray[np.float64]
    noisy: NDArray[np.float64]
    step_ticks: Longs
    slow: NDArray[np.float64]
    slower: NDArray[np.float64]
    phase: NDArray[np.float64]
    limit: NDArray[np.float64]
    offset: NDArray[np.float64]
    counts: NDArray[np.float64]
    resolution: NDArray[np.float64]

    @classmethod
    def of(cls, drawn: Bits) -> _About:
        def share(shift: int) -> NDArray[np.float64]:
            return ((drawn >> np.uint64(shift)) & np.uint64(255)).astype(np.float64) / 255

        kind = (drawn % np.uint64(4)).astype(np.int64)
        # A read-back that drifts; a set-point, which only steps; a noisy monitor; one that is calculated from others.
        of_kind = (1, 0, 0.4, 0.8), (0, 0.3, 0, 0.2), (0.01, 0, 0.5, 0.1)
        drifts, steps, noisy = (np.array(each)[kind] for each in of_kind)
        # Converters of 16 bits, and what is calculated from them: as many digits as a double has, but for the last.
        counts = np.where(kind == 3, 2.0**40, 2.0**15)
        scale = 10.0 ** np.rint(share(8) * 6 - 2)
        return cls(
            drifts=drifts,
            steps=steps,
            noisy=noisy,
            step_ticks=200 + (share(16) * 2_000).astype(np.int64),
            slow=2 * np.pi / (2_000 + 20_000 * share(24)),
            slower=2 * np.pi / (50_000 + 200_000 * share(32)),
            phase=2 * np.pi * share(40),
            limit=0.5 + share(48),
            offset=np.rint(share(56) * 100) * scale,
            counts=counts,
            resolution=scale / counts,
        )


def _name(number: int) -> str:
    """In the manner of a naming convention: group, cell, kind of device, number, signal."""
    group, first = 0, 0
    while group < len(GROUPS) - 1 and number >= first + GROUPS[group]:
        first += GROUPS[group]
        group += 1
    return f"G{group + 1}:C{number % 24:02d}-MG{{PS:{number - first:05d}}}I-RB"


def _noise(drawn: Bits) -> NDArray[np.float64]:
    """Two uniform numbers added: between -1 and 1, and mostly near 0."""
    low, high = drawn & np.uint64(0xFFFFFFFF), drawn >> np.uint64(32)
    noise: NDArray[np.float64] = (low + high).astype(np.float64) / 2.0**32 - 1
    return noise


def _mixed(values: Bits) -> Bits:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
