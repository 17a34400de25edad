"""Medians over trials, and what may be said about a ratio, each with its interval.

Trials are taken as independent draws from one distribution: they are separate processes on fresh data, and nothing
is assumed of the draws inside a trial. An interval speaks of this machine on this day: a drift between runs is not in
it.

From 6 trials on, the interval of a median takes nothing else for granted. It lies between two order statistics, and
between two pairs of them where neither has a confidence of exactly 95 % (Hettmansperger and Sheather, 1986). Noise on
a machine is skewed: most trials are alike, and some are slowed down a lot.

For 3 to 5 trials no such interval has 95 %: that from the least to the greatest of three has 75 %. There it is
Student's t on the logarithms, with n - 1 degrees of freedom, as if trials were log-normal. Fewer than three have
none: that of two would reach over orders of magnitude.

The interval of a ratio is Student's t on the logarithms for any number: of the ratios of n blocks, whose noise is
skewed in both parts alike; and of two runs, which have no blocks in common, with the degrees of freedom of Welch and
Satterthwaite. From 10 on it is that of means without the tenth at each end, so that a hiccup does not widen it (Yuen,
1974). `benchmarks/certainty.py` prints how often all of them cover the truth, also where trials are not
log-normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from dyno.stats.student import two_sided

FEWEST_TRIALS = 3
FEWEST_ORDERED = 6
FEWEST_TRIMMED, TRIMMED = 10, 0.1
"""From so many values on, this share of them is left out of a mean at each end."""
CONFIDENCE = 0.95
"""Of the intervals of medians."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median and its interval, None where there are too few values for one."""

    median: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Center:
    """What is known of the logarithm of a median, or of a ratio."""

    log: float
    error: float
    """Standard error."""
    degrees: float

    def half(self, confidence: float) -> float:
        """Of the interval, to each side."""
        return two_sided(confidence, self.degrees) * self.error


def center(values: Sequence[float]) -> Center:
    """Of at least two positive values: the mean of their logarithms, trimmed where there are enough of them."""
    logs = sorted(math.log(value) for value in values)
    number, off = len(logs), int(len(logs) * TRIMMED) if len(logs) >= FEWEST_TRIMMED else 0
    kept = logs[off : number - off]
    # What is cut off counts as if it were the last that is not (Yuen, 1974); without any it is the plain error.
    spread = deviation([kept[0]] * off + kept + [kept[-1]] * off)
    error = spread * math.sqrt((number - 1) / (len(kept) * (len(kept) - 1)))
    return Center(fmean(kept), error, len(kept) - 1)


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample, rounded once, as `statistics.stdev` has it from Python 3.11 on, which takes
    eight times as long: reports of many rows were mostly made of it."""
    exact = [value.as_integer_ratio() for value in values]
    scale, number = max(below for _, below in exact), len(exact)
    # Denominators are powers of two.
    whole = [above * (scale // below) for above, below in exact]
    return _root(number * sum(n * n for n in whole) - sum(whole) ** 2, number * (number - 1) * scale * scale)


def _root(above: int, below: int) -> float:
    """Of a fraction, correctly rounded: by way of an integer of 109 bits at least whose last says whether more comes
    after it, as Python's own library does."""
    shift = (above.bit_length() - below.bit_length() - 109) // 2
    above, below = (above, below << 2 * shift) if shift >= 0 else (above << -2 * shift, below)
    root = math.isqrt(above // below)
    root |= root * root * below != above
    return float(root << shift) if shift >= 0 else root / (1 << -shift)


def apart(values: Sequence[float], base: Sequence[float]) -> Center:
    """Of the ratio of two medians whose values are not paired."""
    one, other = center(values), center(base)
    variances = one.error**2, other.error**2
    error = math.sqrt(sum(variances))
    if not error:
        return Center(one.log - other.log, 0.0, one.degrees + other.degrees)
    degrees = error**4 / (variances[0] ** 2 / one.degrees + variances[1] ** 2 / other.degrees)
    return Center(one.log - other.log, error, degrees)


def estimate(values: Sequence[float]) -> Estimate:
    """The median and the 95 % interval of positive values."""
    middle = float(median(values))
    if len(values) < FEWEST_TRIALS:
        return Estimate(middle, None, None)
    if len(values) < FEWEST_ORDERED:
        return around(middle, center(values), CONFIDENCE)
    return Estimate(middle, *_ordered(sorted(values)))


def around(middle: float, found: Center, confidence: float) -> Estimate:
    """The interval, which has the median in it: with few, skewed values that may lie outside one around the mean."""
    half = found.half(confidence)
    low, high = math.exp(found.log - half), math.exp(found.log + half)
    return Estimate(middle, min(low, middle), max(high, middle))


def _ordered(values: Sequence[float]) -> tuple[float, float]:
    """Between the pair of order statistics that just has the confidence and the next, which has not."""
    number = len(values)
    # Counted from the ends. The chance of fewer than `rank` of n values on one side of the median is binomial.
    rank = 1
    while _covers(rank + 1, number) >= CONFIDENCE:
        rank += 1
    over, under = _covers(rank, number), _covers(rank + 1, number)
    share = (over - CONFIDENCE) / (over - under)
    inner = (number - rank) * share / (rank + (number - 2 * rank) * share)
    low = (1 - inner) * values[rank - 1] + inner * values[rank]
    return low, (1 - inner) * values[-rank] + inner * values[-rank - 1]


def _covers(rank: int, number: int) -> float:
    """The chance that the median lies between the order statistics of that rank from both ends."""
    fewer: int = sum(math.comb(number, i) for i in range(rank))
    return 1 - 2 * (fewer / (1 << number))
