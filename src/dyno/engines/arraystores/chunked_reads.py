"""Reads of the port `arrays` on what is sliced like an array and is not one: columns that a library keeps in chunks.

How they are stored may not be put here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from dyno.suites.arrays import columns
from dyno.suites.arrays.port import NAMES, Chunk


class Pieces:
    """See `dyno.suites.arrays.port.Arrays`. A column is never in memory whole, but for a frame."""

    rows = 0
    """How many there are."""
    step = columns.STEP
    """Rows that are read at once: whole chunks."""

    def column(self, name: str) -> Any:
        """What is sliced to get values; times are whole numbers there."""
        raise NotImplementedError

    def _pieces(self, name: str) -> Iterator[Any]:
        column = self.column(name)
        return (column[at : min(at + self.step, self.rows)] for at in range(0, self.rows, self.step))

    def sum(self, name: str) -> int | float:
        return columns.added(name, self._pieces(name))

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [columns.moments(partial(self._pieces, name)) for name in names]

    def slice(self, rows: range) -> Chunk:
        return {name: columns.restored(name, self.column(name)[rows.start : rows.stop]) for name in NAMES}

    def frame(self, names: Sequence[str]) -> Any:
        from pandas import DataFrame

        found = {name: columns.restored(name, self.column(name)[: self.rows]) for name in names}
        return DataFrame(found, copy=False)
