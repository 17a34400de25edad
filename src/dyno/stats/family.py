"""Confidence of the comparisons that are read together: those of all rows of a run, or of all its answers.

Of 100 runs whose rows are equal, at most one may call any two of them different, however many rows and phases it has,
and whichever row turns out to be the best. So the chance of a false statement is divided among all pairs of rows
(Bonferroni). Among many pairs each then has a small chance, and Student's t with the few degrees of freedom of one
pair would be far too wide. Therefore the variances of all pairs are estimated together: each is moved towards what
they have in common, and gains degrees of freedom, the more so the more alike they are (Smyth, "Linear Models and
Empirical Bayes Methods for Assessing Differential Expression in Microarray Experiments", 2004).

How alike variances are is itself estimated from few of them, and overrated half of the time. So the estimate is the
end of a one-sided interval, and is not used if there are too few variances.

`benchmarks/certainty.py` measures the share of runs with a false statement: for equal rows, groups of equals, spreads
of 2 to 30 %, two modes and drifts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, pvariance

from dyno.stats.estimate import Center
from dyno.stats.verdict import CONFIDENCE

CHANCE = 0.003
"""Probability of a false statement among the comparisons of a run's rows, again among those of its answers, and again
among its answers by CPU time. All together stay below 1 %."""
LOOKS = 5
"""If each block is followed by a decision whether to continue, each decision has this part of the chance."""
FEWEST_VARIANCES, FEWEST_DEGREES = 4, 20
"""Number of independent variances, and of their degrees of freedom in all, below which they are not pooled."""
FEW_DEGREES = 40
LIKELY, LIKELIER = 0.8, 0.9
"""Confidence that variances are at least as alike as estimated: LIKELIER below FEW_DEGREES, and else LIKELY."""
ALIKE = 1e6
"""Degrees of freedom that stand for equal variances."""


@dataclass(frozen=True, slots=True)
class CommonVariance:
    """The variance of a block's ratio that the pairs have in common, as the mean of a scaled inverse chi-squared
    distribution. Without degrees of freedom, nothing is known."""

    variance: float = 1.0
    degrees: float = 0.0

    def moderate(self, center: Center, blocks: int) -> Center:
        """Returns the center of a ratio over this number of blocks, with the error that is estimated from its own
        variance and the common one."""
        if not self.degrees:
            return center
        degrees = center.degrees + self.degrees
        own = center.error**2 * blocks
        variance = (center.degrees * own + self.degrees * self.variance) / degrees
        return Center(center.log, math.sqrt(variance / blocks), degrees)


@dataclass(frozen=True, slots=True)
class Family:
    """What the comparisons that are read together have in common. By default, a comparison is read alone."""

    confidence: float = CONFIDENCE
    """Confidence of the interval of each ratio."""
    common: CommonVariance = CommonVariance()


ALONE = Family()


Centers = Sequence[tuple[Center, int]]
"""The centers of the ratios of all pairs of rows of a table, each with its number of blocks."""
NOTHING_KNOWN = CommonVariance()


def make_family(
    groups: Sequence[Centers], comparisons: int, looks: int = 1, otherwise: CommonVariance = NOTHING_KNOWN
) -> Family:
    """Returns the family of this number of comparisons, whose ratios are in `groups`. `looks`: LOOKS if the run
    decides after each block whether to continue. `otherwise`: the common variance if the ratios are too few to
    estimate it."""
    confidence = 1 - CHANCE / looks / max(comparisons, 1)
    common = estimate_common_variance(groups)
    return Family(min(confidence, 1 - 1e-12), common if common.degrees else otherwise)


def estimate_common_variance(groups: Sequence[Centers]) -> CommonVariance:
    """Returns the distribution of the variances, estimated from their logarithms (Smyth, 2004, section 6.2)."""
    known = [
        (math.log(center.error**2 * blocks), center.degrees)
        for group in groups
        for center, blocks in group
        if center.error > 0
    ]
    # Of the pairs of n rows, n - 1 are independent: the number of pairs is n (n - 1) / 2.
    independent = sum(round((math.sqrt(8 * len(group) + 1) - 1) / 2) for group in groups)
    if independent < FEWEST_VARIANCES or not known:
        return CommonVariance()
    all_degrees = independent * fmean(degrees for _, degrees in known)
    if all_degrees < FEWEST_DEGREES:
        return CommonVariance()
    logs = [log - digamma(degrees / 2) + math.log(degrees / 2) for log, degrees in known]
    confidence = LIKELIER if all_degrees < FEW_DEGREES else LIKELY
    spread = pvariance(logs) * independent / chi_squared(1 - confidence, independent - 1)
    excess = spread - fmean(trigamma(degrees / 2) for _, degrees in known)
    degrees = min(2 * _invert_trigamma(excess), ALIKE) if excess > 0 else ALIKE
    return CommonVariance(math.exp(fmean(logs) + digamma(degrees / 2) - math.log(degrees / 2)), degrees)


def chi_squared(share: float, degrees: float) -> float:
    """Returns the value below which the share of a chi-squared distribution lies (Wilson and Hilferty, 1931)."""
    part = 2 / (9 * degrees)
    return degrees * (1 - part + NormalDist().inv_cdf(share) * math.sqrt(part)) ** 3


ASYMPTOTIC = 10.0
"""The series of digamma and trigamma are precise to 10 digits from here on."""


def digamma(x: float) -> float:
    """Returns the derivative of the logarithm of the gamma function, for x over 0 (Abramowitz and Stegun, 1964,
    6.3.18)."""
    shifted = 0.0
    while x < ASYMPTOTIC:
        shifted -= 1 / x
        x += 1
    square = 1 / (x * x)
    return shifted + math.log(x) - 1 / (2 * x) - square * (1 / 12 - square * (1 / 120 - square / 252))


def trigamma(x: float) -> float:
    """Returns the derivative of digamma, for x over 0 (Abramowitz and Stegun, 1964, 6.4.12)."""
    shifted = 0.0
    while x < ASYMPTOTIC:
        shifted += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    return shifted + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square / 42))


def _invert_trigamma(value: float) -> float:
    """Returns the x with this trigamma, by bisection of its logarithm: trigamma falls from infinity to 0."""
    low, high = math.log(1e-6), math.log(ALIKE)
    for _ in range(60):
        middle = (low + high) / 2
        if trigamma(math.exp(middle)) > value:
            low = middle
        else:
            high = middle
    return math.exp(low)
