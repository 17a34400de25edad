"""The drift of a machine between runs that were not measured in turns, as far as it shows within them.

If a machine drifts, neighbouring blocks differ less than the blocks of a run as a whole (von Neumann, 1941). So the
variance of the speeds, less half the mean square of successive differences, is the variance of the machine's level.
That of a row is hardly known, but a machine's drift is in all its rows: the median row's counts, less the standard
deviation that it has by chance. It says nothing on what changed only between the runs. `benchmarks/certainty.py` has
the error rates with it and without it.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import fmean, median, variance

from dyno.stats.estimate import FEWEST_TRIALS, Center

DEGREES = 3
"""Degrees of freedom of the variance between the levels of two runs. All rows of a run share its drift."""

SpeedsOfTwoRuns = tuple[Mapping[int, float], Mapping[int, float]]
"""The speeds of a row by block, in each of two runs."""


def estimate_drift(rows: Iterable[SpeedsOfTwoRuns]) -> float:
    """Returns the variance of the logarithm of the machine's speed within two runs, apart from the noise of single
    blocks. Rows with too few blocks are left out. 0 if no drift shows."""
    excesses = list[float]()
    for row in rows:
        if all(len(speeds) >= FEWEST_TRIALS for speeds in row):
            excesses.append(fmean(map(_excess, row)))
    if not excesses:
        return 0.0
    return max(median(excesses), 0.0)


def _excess(speeds: Mapping[int, float]) -> float:
    logs = [math.log(speeds[block]) for block in sorted(speeds)]
    squares = [(later - earlier) ** 2 for earlier, later in pairwise(logs)]
    # The standard deviation of the ratio of the two variances, whose mean is 1. That of the mean of two runs is less.
    by_chance = math.sqrt((len(logs) - 2) / (len(logs) ** 2 - 1) / 2)
    spread = variance(logs)
    return spread - fmean(squares) / 2 - by_chance * spread


def include_drift(of: Center, drift: float) -> Center:
    """Returns the ratio of two runs with the variance of both levels in its error."""
    if not drift:
        return of
    levels = 2 * drift
    total = of.error**2 + levels
    degrees = total**2 / (of.error**4 / of.degrees + levels**2 / DEGREES)
    return Center(of.log, math.sqrt(total), degrees)
