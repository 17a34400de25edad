"""The port of the sorting suite. No engine and no measuring belong here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Sorted = tuple[Sequence[int], int, int]
"""The sorted numbers in a list or an array, and the times of copying and ordering in ns. Exactly these types: the
methods of an engine's own type could claim anything."""


class Sorter(Protocol):
    """Engines implement it as a class called with `(engine,)`."""

    def sort(self, numbers: Sequence[int]) -> Sorted:
        """Returns the numbers in ascending order; `numbers` must not change."""
