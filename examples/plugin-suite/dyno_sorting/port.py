"""The port of the sorting suite. No engine and no measuring may be put here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Sorted(NamedTuple):
    numbers: Sequence[int]
    copy_ns: int
    """How long it took to copy them, and to order the copy."""
    order_ns: int


class Sorter(Protocol):
    """Engines implement it as a class called with `(engine,)`."""

    def sort(self, numbers: Sequence[int]) -> Sorted:
        """The same numbers in ascending order; `numbers` stays as it is."""
