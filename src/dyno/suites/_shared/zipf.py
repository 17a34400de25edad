"""Draws from zipfian distributions in constant memory, whatever the number of values."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ranks = NDArray[np.int64]
"""Positions in the order of popularity: 0 is the most popular."""


def zipf_ranks(count: int, theta: float, draws: int, rng: np.random.Generator) -> Ranks:
    """Draws `draws` ranks below `count`. The probability of rank r is proportional to 1 / (r + 1) ** theta."""
    accepted = np.empty(0, np.int64)
    while len(accepted) < draws:
        accepted = np.append(accepted, zipf_accepted(count, theta, rng.random(draws - len(accepted))))
    return accepted


def zipf_accepted(count: int, theta: float, uniforms: NDArray[np.float64]) -> Ranks:
    """Returns the zipfian ranks for those of the uniform numbers that rejection-inversion accepts."""
    ranks, accepted = zipf_candidates(count, theta, uniforms)
    return ranks[accepted]


def zipf_candidates(
    count: float | NDArray[np.float64], theta: float | NDArray[np.float64], uniforms: NDArray[np.float64]
) -> tuple[Ranks, NDArray[np.bool_]]:
    """Returns a rank for each uniform number, and whether rejection-inversion accepts it (Hormann and Derflinger,
    Rejection-inversion to generate variates from monotone discrete distributions, 1996). The distribution of
    accepted ranks is exact. `count` and `theta` may be arrays, with values for each uniform number.

    The area under x ** -theta is inverted, and the result x is rounded to k, which is rank k - 1. Of the area of k,
    which ends at k + 1/2, the last k ** -theta are accepted. All x from k - near on are among them.
    """

    def area(x: float | Floats) -> Floats:
        log = np.log(x)
        return log * _ratio(np.expm1, (1 - theta) * log)

    def inverse(area: Floats) -> Floats:
        return np.exp(area * _ratio(np.log1p, np.maximum((1 - theta) * area, -1)))

    # The area of a large theta ends within rounding errors of its limit, whose inverse is infinite.
    with np.errstate(divide="ignore", over="ignore"):
        low, high = area(1.5) - 1, area(count + 0.5)
        near = 2 - inverse(area(2.5) - 2.0**-theta)
        areas = high + uniforms * (low - high)
        x = inverse(areas)
    k = np.rint(x.clip(1, count))
    accepted = (k - x <= near) | (areas >= area(k + 0.5) - k**-theta)
    return k.astype(np.int64) - 1, accepted


def _ratio(function: np.ufunc, x: Floats) -> Floats:
    """Returns function(x) / x, which is 1 in the limit for x = 0."""
    ratio: Floats = np.divide(function(x), x, out=np.ones_like(x), where=x != 0)
    return ratio
