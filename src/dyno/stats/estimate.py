"""Medians over trials and ratios, each with an interval.

Assumptions: trials are independent draws from one distribution (they are separate processes on fresh data). Nothing
is assumed about the operations inside a trial. An interval is valid for this machine on this day: it doesn't include
a drift between runs.

- Median of 6 trials or more: between two order statistics, interpolated between the two pairs whose confidence is
  just above and just below 95 % (Hettmansperger and Sheather, 1986). Noise on a machine is skewed: most trials are
  alike, and some are much slower.
- Median of 3 to 5 trials: no order statistics reach 95 % (least to greatest of three have 75 %), so Student's t is
  applied to the logarithms, as if trials were log-normal. Fewer than three trials have no interval: it would span
  orders of magnitude.
- Ratio: Student's t on the logarithms. For a ratio over n blocks, in which skewed noise affects both parts alike,
  with n - 1 degrees of freedom. For a ratio of two runs, which have no blocks in common, with the degrees of freedom
  of Welch and Satterthwaite. From 10 values on the mean is trimmed by a tenth at each end, so that a hiccup doesn't
  widen the interval (Yuen, 1974).

`benchmarks/certainty.py` measures how often the intervals contain the truth, also if trials are not log-normal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean, median

FEWEST_TRIALS = 3
FEWEST_ORDERED = 6
FEWEST_TRIMMED, TRIMMED = 10, 0.1
"""From FEWEST_TRIMMED values on, the share TRIMMED of them is trimmed at each end."""
CONFIDENCE = 0.95
"""Confidence of the intervals of medians."""
PRECISION, MOST_FRACTION_TERMS = 1e-13, 1_000
STEP = 1e-10
"""Relative size of the last step of Newton's method, whose error is about its square."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median and its interval. With too few values, the ends of the interval are None."""

    median: float
    low: float | None
    """Lower end of the 95 % interval; null under 3 samples."""
    high: float | None

    @property
    def reach(self) -> float | None:
        """The longer side of the interval, as a share of the median; None without an interval."""
        if self.low is None or self.high is None or not self.median:
            return None
        return max(self.high - self.median, self.median - self.low) / self.median


@dataclass(frozen=True, slots=True)
class Center:
    """The logarithm of a median or a ratio, with its standard error and degrees of freedom."""

    log: float
    error: float
    degrees: float

    def half(self, confidence: float) -> float:
        """Returns half the width of the interval."""
        return two_sided(confidence, self.degrees) * self.error


def center(values: Sequence[float]) -> Center:
    """Returns the mean of the logarithms of at least two positive values, trimmed if there are enough."""
    return center_numbers([math.log(value) for value in values])


def center_numbers(numbers: Sequence[float]) -> Center:
    """Returns the mean of at least two logarithms or differences, trimmed if there are enough."""
    ordered = sorted(numbers)
    trimmed = 0
    if len(ordered) >= FEWEST_TRIMMED:
        trimmed = int(len(ordered) * TRIMMED)
    inner = ordered[trimmed : len(ordered) - trimmed]
    # A trimmed value counts as the nearest remaining value (Yuen, 1974).
    winsorized = [inner[0]] * trimmed + inner + [inner[-1]] * trimmed
    # Distances from one of the values rather than the values, so that the spread of equal values is exactly 0.
    distances = [number - ordered[0] for number in winsorized]
    middle = fmean(distances)
    squares = math.fsum((distance - middle) ** 2 for distance in distances)
    return Center(fmean(inner), math.sqrt(squares / (len(inner) * (len(inner) - 1))), len(inner) - 1)


def compare_unpaired(values: Sequence[float], base: Sequence[float]) -> Center:
    """Returns the ratio of two medians whose values are not paired."""
    return quotient(center(values), center(base))


def quotient(one: Center, other: Center) -> Center:
    """Returns the ratio of two independent estimates, with the degrees of freedom of Welch and Satterthwaite."""
    variances = one.error**2, other.error**2
    error = math.sqrt(sum(variances))
    if not error:
        return Center(one.log - other.log, 0.0, one.degrees + other.degrees)
    degrees = error**4 / (variances[0] ** 2 / one.degrees + variances[1] ** 2 / other.degrees)
    return Center(one.log - other.log, error, degrees)


def estimate(values: Sequence[float]) -> Estimate:
    """Returns the median of positive values and its 95 % interval."""
    middle = float(median(values))
    if len(values) < FEWEST_TRIALS:
        return Estimate(middle, None, None)
    if len(values) < FEWEST_ORDERED:
        return make_interval(middle, center(values), CONFIDENCE)
    return Estimate(middle, *_interpolate_interval(sorted(values)))


def make_interval(middle: float, of: Center, confidence: float) -> Estimate:
    """Returns the interval, extended to the median if necessary: the median of few, skewed values may lie outside the
    interval of their mean."""
    half = of.half(confidence)
    low, high = math.exp(of.log - half), math.exp(of.log + half)
    return Estimate(middle, min(low, middle), max(high, middle))


def _interpolate_interval(values: Sequence[float]) -> tuple[float, float]:
    """Interpolates between the narrowest pair of order statistics with enough confidence, and the next pair."""
    number = len(values)
    rank = 1
    while _coverage(rank + 1, number) >= CONFIDENCE:
        rank += 1
    over, under = _coverage(rank, number), _coverage(rank + 1, number)
    share = (over - CONFIDENCE) / (over - under)
    inner = (number - rank) * share / (rank + (number - 2 * rank) * share)
    low = (1 - inner) * values[rank - 1] + inner * values[rank]
    return low, (1 - inner) * values[-rank] + inner * values[-rank - 1]


def _coverage(rank: int, number: int) -> float:
    """Returns the probability (binomial) that the median lies between the values of this rank from both ends."""
    fewer: int = sum(math.comb(number, i) for i in range(rank))
    return 1 - 2 * (fewer / (1 << number))


# -- Student's t distribution, for any confidence and also fractional degrees of freedom --------------------


def tail(t: float, degrees: float) -> float:
    """Returns the probability of a value above `t`."""
    whole = degrees + t * t
    half = _beta(degrees / whole, t * t / whole, degrees / 2, 0.5) / 2
    if t >= 0:
        return half
    return 1 - half


@lru_cache(maxsize=4096)
def two_sided(confidence: float, degrees: float) -> float:
    """Returns the t for which the share `confidence` of the distribution lies between -t and t. `degrees`: at least
    1."""
    beyond = (1 - confidence) / 2
    front = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    # Newton's method, from the normal distribution's quantile, which is smaller. The tail is convex from 0 on, so no
    # step overshoots.
    t, step = NormalDist().inv_cdf(1 - beyond), 1.0
    while abs(step) > STEP * t:
        density = math.exp(front - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        step = (tail(t, degrees) - beyond) / density
        t += step
    return t


def _beta(x: float, rest: float, a: float, b: float) -> float:
    """Returns the regularized incomplete beta function. Computed by its continued fraction if this converges fast
    (Abramowitz and Stegun, 1964, 26.5.8), or else by its symmetry. `rest` is 1 - x, without the rounding of a
    subtraction."""
    if not x or not rest:
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(rest, x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    # Lentz's method. For such a small x no denominator is 0.
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for number in range(2, MOST_FRACTION_TERMS):
        m, at = number // 2, a + number
        if number % 2:
            numerator = -(a + m) * (a + b + m)
        else:
            numerator = m * (b - m)
        term = numerator * x / ((at - 1) * at)
        c, d = 1 + term / c, 1 / (1 + term * d)
        fraction *= c * d
        if number % 2 and abs(c * d - 1) < PRECISION:
            break
    return math.exp(front) * fraction / a
