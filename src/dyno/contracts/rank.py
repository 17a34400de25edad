"""Rank of a percentile among a number of values, exactly."""

from fractions import Fraction
from functools import cache


def rank(percentile: float, count: int) -> int:
    """Returns the least rank, from 1, up to which at least this percentage of `count` values lie. The percentile is
    the decimal number that it prints as: 99.9 % of 1,000 values are 999 values, but as floats 999.0000000000001."""
    above, below = _share(percentile)
    return min(max(-(-above * count // below), 1), count)


@cache
def _share(percentile: float) -> tuple[int, int]:
    return (Fraction(str(percentile)) / 100).as_integer_ratio()
