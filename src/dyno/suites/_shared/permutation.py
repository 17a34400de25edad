"""Random permutations computed piece by piece, for inputs too large for a list."""

from collections.abc import Sequence
from math import isqrt

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 8
"""Rounds of the network. Four are enough with random round functions (Luby and Rackoff, 1988); these functions are
simpler."""
# Shifts and factors of the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_PIECE = 4_096
"""Numbers computed at once, since computing few at a time is slow."""


class Permutation:
    """A seeded bijection of range(n) in constant memory. Slices are computed on demand.

    It is a generalized Feistel network (Black and Rogaway, 2002): a number is a cell in a grid of about sqrt(n) by
    sqrt(n), whose column and row are shifted in turn by a hash of the other. The grid can be larger than n, so a
    result outside range(n) passes through the network again until it is inside.
    """

    def __init__(self, n: int, seed: int | Sequence[int]) -> None:
        """Raises ValueError unless `n` is from 1 to 2 ** 62."""
        if not 1 <= n <= 2**62:
            raise ValueError(f"expected 1 to 2 ** 62 numbers, got {n}")
        self._n = n
        self._columns = isqrt(n - 1) + 1
        self._rows = -(-n // self._columns)
        self._keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, piece: slice) -> NDArray[np.int64]:
        """Returns the numbers at these positions of the order."""
        return self.numbers_at(np.arange(*piece.indices(self._n)))

    def numbers_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the number at each of these positions of the order."""
        numbers = self._permute(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(numbers >= self._n)):
            numbers[outside] = self._permute(numbers[outside])
        return numbers.astype(np.int64)

    def _permute(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Passes numbers through the network once."""
        width, height = np.uint64(self._columns), np.uint64(self._rows)
        row, column = np.divmod(numbers, width)
        for one, other in self._keys.reshape(-1, 2):
            column = (column + _hash(row, one)) % width
            row = (row + _hash(column, other)) % height
        result: NDArray[np.uint64] = row * width + column
        return result


class Shuffled:
    """The numbers of a range in random order, computed piece by piece. `most`: only the first so many."""

    def __init__(self, numbers: range, seed: int | Sequence[int], most: int | None = None) -> None:
        # A permutation needs at least one number, even if the range is empty.
        self._numbers, self._order = numbers, Permutation(max(len(numbers), 1), seed)
        if most is None:
            self._count = len(numbers)
        else:
            self._count = min(most, len(numbers))
        self._start, self._piece = 0, list[int]()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: slice) -> list[int]:
        """Returns the numbers at consecutive positions of the order."""
        (position, stop, _), result = at.indices(self._count), list[int]()
        while position < stop:
            if not 0 <= position - self._start < len(self._piece):
                self._start = position - position % _PIECE
                order = self._order[self._start : self._start + _PIECE]
                self._piece = (order * self._numbers.step + self._numbers.start).tolist()
            first = position - self._start
            result += self._piece[first : first + stop - position]
            position = self._start + min(first + stop - position, len(self._piece))
        return result


def _hash(values: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Returns 62-bit hashes, so that a sum with a row or column can't overflow."""
    mixed = values * np.uint64(0x9E3779B97F4A7C15) + key
    for shift, factor in _STEPS:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    result: NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(_LAST_SHIFT))) >> np.uint64(2)
    return result
