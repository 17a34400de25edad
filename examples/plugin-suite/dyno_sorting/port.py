"""The port of the sorting suite. No engine and no measuring may be put here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Sorter(Protocol):
    """Engines implement it as a class called with `(engine,)`."""

    def sort(self, numbers: Sequence[int]) -> list[int]:
        """A new list of the same numbers in ascending order; `numbers` stays as it is."""
