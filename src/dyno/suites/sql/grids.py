"""Rounding by which equal numbers of two engines get equal hashes, although their last digits differ.

A number with a fraction falls into a cell on each of three grids. Two numbers in the same cell differ by at most the
tolerance. The edges of the grids are at different places, so numbers that differ by less than a hundredth of the
tolerance are in the same cell on at least two grids.

The cells are stretches of the bits of a double, taken as an integer: they are as wide as the tolerance allows for the
lowest number of a power of two, and go on across powers. Below FLOOR they no longer get narrower. Edges lie in the
middle between two neighbouring 32-bit floats, so that such a float and its shortest decimal are in the same cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

FLOOR = 2.0**-10
"""The tolerance of smaller numbers is a share of this one: a sum of zero may be off by the noise of its parts."""
COUNT = 3
"""Number of grids. Two answers with N fractions, which differ by relative noise E, are in different cells of each
grid with a probability of about (2 * N * E / tolerance) ** COUNT."""
MANTISSA, SINGLE = 52, 29
"""Bits of a double's mantissa, and how many of them a 32-bit float lacks."""
FRACTION = 0.2345
"""From this distance on, no number counts as the next whole number. Neither data nor quotients lie just there."""
LIMITS = (2.0**53, 2.0**42, 2.0**40)
"""From this size on, doubles don't count as whole numbers on each grid. Beyond 2^53 they can't hold all of them, and
beyond 2^42 noise of 1e-13 takes one to the next."""


class Grids:
    def __init__(self, tolerance: float) -> None:
        bits = MANTISSA
        if tolerance:
            bits = min(max(math.ceil(-math.log2(tolerance)), 1), MANTISSA)
        self._shift = MANTISSA - bits
        width = 1 << self._shift
        lattice = 1
        if self._shift > SINGLE + 1:
            lattice = 1 << SINGLE
        sixths = [(2 * grid + 1) * width // 6 for grid in range(COUNT)]
        self._offsets = [sixth // lattice * lattice + lattice // 2 for sixth in sixths]
        share = 2.0**-bits if tolerance else 0.0
        self._shares = [share / 2 ** (grid + 1) for grid in range(COUNT)]
        self._fractions = [FRACTION / 2**grid for grid in range(COUNT)]

    def whole(self, number: float) -> int | None:
        """Returns the whole number that a finite number is on every grid; None if it isn't on one of them."""
        if abs(number) >= LIMITS[-1]:
            return None
        nearest = round(number)
        reach = min(max(abs(nearest), FLOOR) * self._shares[-1], self._fractions[-1])
        if abs(number - nearest) <= reach:
            return nearest
        return None

    def codes(self, numbers: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
        """Yields for each grid which of these finite numbers count as whole numbers, and the code of each: the whole
        number or the cell."""
        sizes = np.abs(numbers)
        nearest = np.rint(numbers)
        distances = np.abs(numbers - nearest)
        # Below FLOOR, FLOOR + size has the bits of a linear scale, which meets the logarithmic one at FLOOR.
        small = sizes < FLOOR
        bits = np.where(small, sizes + FLOOR, sizes).view(np.int64) - (small.astype(np.int64) << MANTISSA)
        bases = np.maximum(np.abs(nearest), FLOOR)
        integers = np.where(sizes < LIMITS[0], nearest, 0).astype(np.int64)
        for offset, share, fraction, limit in zip(self._offsets, self._shares, self._fractions, LIMITS, strict=True):
            whole = (sizes < limit) & (distances <= np.minimum(bases * share, fraction))
            cells = (bits + offset) >> self._shift
            yield whole, np.where(whole, integers, np.where(numbers < 0, ~cells, cells))


@cache
def grids(tolerance: float) -> Grids:
    return Grids(tolerance)


def close(one: float, other: float, tolerance: float) -> bool:
    """Returns whether two numbers agree, of which a whole number is an int."""
    if type(one) is type(other) is int:
        return one == other
    if abs(one - other) > tolerance * max(abs(one), abs(other), FLOOR):
        return False
    # A whole number is the nearest to the other number.
    return type(one) is type(other) or round(one) == round(other)
