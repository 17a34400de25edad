"""Simulated process variables. A sample depends only on the seed, its variable and its number, so that each can be
computed without the others.

There are four groups of 1, 10, 100 and 1,000 variables, as in the published test. A variable has slow drifts, steps,
noise and the resolution of its converter, alarms when its value leaves its limits, disconnected intervals, and gaps
without samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dyno.suites.series.port import SampleBatch

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Bits = NDArray[np.uint64]
GROUPS = (1, 10, 100, 1_000)
SECOND = 1_000_000_000
HALF_HOUR = 1_800 * SECOND
START = 1_256_601_600 * SECOND
"""Start of the samples: the day of the published test, 2009-10-27, 00:00 UTC."""

# Alarm status and severity, as in alarm.h of EPICS.
NO_ALARM, HIHI, HIGH, LOLO, LOW, COMM = 0, 3, 4, 5, 6, 9
MINOR, MAJOR, INVALID = 1, 2, 3

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
        self._traits = _Traits.of(self._random(np.arange(variables), np.zeros(variables, np.int64), _TRAITS))

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
        """Returns the times of samples in ns. Each time is random within the sample's period, and later after a gap
        in the half-hour."""
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

    # -- arrival ------------------------------------------------------------------------------------------------

    def delays(self, purpose: int, pv: Longs, tick: Longs, most: int, of_million: int) -> Longs:
        """Returns the number of batches by which each sample is late (LATE), or after which it arrives again
        (RESENT): 0 for most samples, or from 1 to `most`."""
        drawn = self._random(pv, tick, purpose)
        delayed = drawn % np.uint64(1_000_000) < np.uint64(of_million)
        return np.where(delayed, 1 + (drawn >> np.uint64(32)).astype(np.int64) % most, 0)

    def corrected(self, pv: Longs, tick: Longs, of_million: int) -> NDArray[np.bool_]:
        """Returns whether each sample has another value when it arrives again."""
        return self._random(pv, tick, _CORRECTED) % np.uint64(1_000_000) < np.uint64(of_million)

    def _random(self, pv: Longs, number: Longs, purpose: int) -> Bits:
        """Returns 64 random bits for each sample."""
        mixed = _mixed(pv.astype(np.uint64) + (self._seed << np.uint64(24)) + np.uint64(purpose << 56))
        return _mixed(mixed + number.astype(np.uint64) * _GOLDEN)


class _Traits(NamedTuple):
    """Behaviour of each variable. Values are computed around 0 with a magnitude of 1, and scaled at the end."""

    drifts: Floats
    steps: Floats
    noisy: Floats
    step_ticks: Longs
    slow: Floats
    slower: Floats
    phase: Floats
    limit: Floats
    offset: Floats
    counts: Floats
    resolution: Floats

    @classmethod
    def of(cls, drawn: Bits) -> _Traits:
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
        return cls(
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


def _mixed(values: Bits) -> Bits:
    """Mixes bits by the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
