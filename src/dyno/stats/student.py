"""Student's t distribution: quantiles for any confidence and any, also fractional, degrees of freedom. Dyno's core
does not depend on a library of statistics."""

from __future__ import annotations

import math
from functools import lru_cache

PRECISION = 1e-13
MOST_TERMS = 500
TINY = 1e-300
TERMS = 24
"""Terms of the series of quantiles."""


def tail(t: float, degrees: float) -> float:
    """Probability of a value above `t`."""
    whole = degrees + t * t
    half = _beta(degrees / whole, t * t / whole, degrees / 2, 0.5) / 2
    return half if t >= 0 else 1 - half


def two_sided(confidence: float, degrees: float) -> float:
    """The t for which the share `confidence` of the distribution lies between -t and t."""
    if degrees < 1:
        return _solved(confidence, degrees)
    # Clenshaw's sum of a series: in a comparison of runs each row has other degrees, and solving is slow.
    x, last, total = 2 / degrees - 1, 0.0, 0.0
    first, *rest = _series(confidence)
    for term in reversed(rest):
        total, last = 2 * x * total - last + term, total
    return math.exp(x * total - last + first)


@lru_cache(maxsize=64)
def _series(confidence: float) -> tuple[float, ...]:
    """The Chebyshev coefficients of the logarithm of `two_sided` over 2 / degrees - 1, for degrees from 1 up."""
    angles = [(at + 0.5) * math.pi / TERMS for at in range(TERMS)]
    logs = [math.log(_solved(confidence, 2 / (1 + math.cos(angle)))) for angle in angles]
    sums = (
        sum(log * math.cos(order * angle) for log, angle in zip(logs, angles, strict=True)) for order in range(TERMS)
    )
    first, *rest = (2 * total / TERMS for total in sums)
    return first / 2, *rest


def _solved(confidence: float, degrees: float) -> float:
    wanted, t = (1 - confidence) / 2, 0.0
    while True:
        # Newton's method: the tail is convex from 0 on, so no step overshoots.
        step = (tail(t, degrees) - wanted) / _density(t, degrees)
        t += step
        if step <= PRECISION * t:
            return t


def _density(t: float, degrees: float) -> float:
    front = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    return math.exp(front - (degrees + 1) / 2 * math.log1p(t * t / degrees))


def _beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction if that converges fast (Abramowitz and
    Stegun, 1964, 26.5.8), else by its symmetry. `rest` is 1 - x, without the rounding of a subtraction."""
    if not x or not rest:
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(rest, x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(front) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction by Lentz's method; unrolled, because a gate needs it for every row."""
    both, c, d = a + b, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > TINY else TINY)
    value = d
    for m in range(1, MOST_TERMS):
        at = a + 2 * m
        term = m * (b - m) * x / ((at - 1) * at)
        d, c = 1 + term * d, 1 + term / c
        d, c = 1 / (d if abs(d) > TINY else TINY), c if abs(c) > TINY else TINY
        value *= c * d
        term = -(a + m) * (both + m) * x / (at * (at + 1))
        d, c = 1 + term * d, 1 + term / c
        d, c = 1 / (d if abs(d) > TINY else TINY), c if abs(c) > TINY else TINY
        value *= c * d
        if abs(c * d - 1) < PRECISION:
            break
    return value
