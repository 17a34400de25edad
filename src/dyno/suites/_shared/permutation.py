"""The numbers below n in a random order, made piece by piece: for inputs that are too many for a list of all."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 8
"""Of the network. Four are enough where each is random (Luby and Rackoff, 1988); these are simple ones."""
# The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_PIECE = 4_096
"""Numbers that are worked out at once."""


class Permutation:
    """A seeded bijection of range(n), in memory that does not grow with n: a slice of it is computed when asked for.

    A generalized Feistel network (Black and Rogaway, 2002): a number is a place in a grid of about sqrt(n) by
    sqrt(n), whose column and row are shifted in turn by a hash of the other. Where the grid has some places more than
    n, the network is walked on from these until it leads below n.
    """

    def __init__(self, n: int, seed: int | Sequence[int]) -> None:
        """Of n from 1 up to 2 ** 62. Raises ValueError."""
        if not 1 <= n <= 2**62:
            raise ValueError(f"wants 1 to 2 ** 62 numbers, not {n}")
        self._n = n
        self._columns = isqrt(n - 1) + 1
        self._rows = -(-n // self._columns)
        self._keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, piece: slice) -> NDArray[np.int64]:
        """The numbers at these places of the order."""
        places = self._walked(np.arange(*piece.indices(self._n), dtype=np.uint64))
        while len(beyond := np.flatnonzero(places >= self._n)):
            places[beyond] = self._walked(places[beyond])
        return places.astype(np.int64)

    def _walked(self, places: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Once through the network."""
        width, height = np.uint64(self._columns), np.uint64(self._rows)
        row, column = np.divmod(places, width)
        for one, other in self._keys.reshape(-1, 2):
            column = (column + _hashed(row, one)) % width
            row = (row + _hashed(column, other)) % height
        found: NDArray[np.uint64] = row * width + column
        return found


class Shuffled(Sequence[int]):
    """The numbers of a range, or the first `most` of them, in a random order that is worked out piece by piece."""

    def __init__(self, numbers: range, seed: int | Sequence[int], most: int | None = None) -> None:
        # Of no numbers none is asked for.
        self._numbers, self._order = numbers, Permutation(max(len(numbers), 1), seed)
        self._count = len(numbers) if most is None else min(most, len(numbers))
        self._start, self._piece = 0, list[int]()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> list[int]: ...

    def __getitem__(self, at: int | slice) -> int | list[int]:
        if isinstance(at, int):
            return self._at(range(self._count)[at])
        places, found = range(self._count)[at], list[int]()
        if places.step != 1:
            return [self._at(place) for place in places]
        while len(found) < len(places):
            place = self._within(places.start + len(found))
            found += self._piece[place : place + len(places) - len(found)]
        return found

    def _at(self, place: int) -> int:
        at = self._within(place)
        return self._piece[at]

    def _within(self, place: int) -> int:
        """Where a place is in the piece that has it, which is worked out: one by one they would take too long."""
        if not 0 <= place - self._start < len(self._piece):
            self._start = place - place % _PIECE
            order = self._order[self._start : self._start + _PIECE]
            self._piece = (order * self._numbers.step + self._numbers.start).tolist()
        return place - self._start


class Grouped(Sequence[Sequence[int]]):
    """Numbers in groups of so many, the last one smaller: lists, which are made when they are asked for."""

    def __init__(self, numbers: Sequence[int], size: int) -> None:
        self._numbers, self._size = numbers, size

    def __len__(self) -> int:
        return -(-len(self._numbers) // self._size)

    @overload
    def __getitem__(self, at: int) -> Sequence[int]: ...

    @overload
    def __getitem__(self, at: slice) -> list[Sequence[int]]: ...

    def __getitem__(self, at: int | slice) -> Sequence[int] | list[Sequence[int]]:
        if isinstance(at, int):
            start = range(0, len(self._numbers), self._size)[at]
            return self._numbers[start : start + self._size]
        return [self[place] for place in range(len(self))[at]]


def _hashed(values: NDArray[np.uint64], key: Any) -> NDArray[np.uint64]:
    """64 bits of each, less the highest two, so that a sum with a place does not overflow."""
    mixed = values * np.uint64(0x9E3779B97F4A7C15) + key
    for shift, factor in _STEPS:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    found: NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(_LAST_SHIFT))) >> np.uint64(2)
    return found
