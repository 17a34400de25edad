"""Rank of a percentile among a number of values, and whether so many values support it, exactly."""

from fractions import Fraction
from functools import cache

LEAST_BEYOND = 5
"""A percentile above the median needs as many values beyond it. With fewer, it would be one of the largest values."""


def rank(percentile: float, count: int) -> int:
    """Returns the least rank, from 1, up to which at least this percentage of `count` values lie. The percentile is
    the decimal number that it prints as: 99.9 % of 1,000 values are 999 values, but as floats 999.0000000000001."""
    above, below = _share(percentile)
    return min(max(-(-above * count // below), 1), count)


def is_supported(percentile: float, count: int) -> bool:
    """Returns whether at least LEAST_BEYOND of `count` values lie beyond the percentile. The median of any number of
    values is a figure of their middle."""
    return percentile <= 50 or count >= needed_values(percentile)


@cache
def needed_values(percentile: float, beyond: int = LEAST_BEYOND) -> int:
    """Returns the least number of values of which at least `beyond` lie beyond a percentile below 100: 500 for the
    99th."""
    above, below = _share(percentile)
    return -(-beyond * below // (below - above))


@cache
def _share(percentile: float) -> tuple[int, int]:
    return (Fraction(str(percentile)) / 100).as_integer_ratio()
