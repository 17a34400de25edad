"""The port of the sorting suite. No engine and no measuring may be put here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Sorted = tuple[Sequence[int], int, int]
"""The numbers in a list or an array, and how long it took to copy them and to order the copy, in ns. Of exactly these
types: what is asked of an answer that is one of an engine's own is answered by the engine."""


class Sorter(Protocol):
    """Engines implement it as a class called with `(engine,)`."""

    def sort(self, numbers: Sequence[int]) -> Sorted:
        """The same numbers in ascending order; `numbers` stays as it is."""
