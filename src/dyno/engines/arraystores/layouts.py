"""The table as NumPy arrays, by columns or by rows: what the engines share that are such arrays, wherever their
memory is. How they are stored may not be put here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dyno.contracts.settings import Setting, choice
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import BY_NAME, NAMES, Change, Chunk

COLUMNS, RECORDS = "columns", "records"
WHOLE = "stock"
"""The one array of `records`, by name."""
LAYOUT = Setting(
    "layout",
    choice(COLUMNS, RECORDS),
    COLUMNS,
    "columns: an array for each column; records: one array of rows, as in the published test",
)


def dtypes(layout: str) -> dict[str, Any]:
    """The arrays that there are, by name, each with its type."""
    return {WHOLE: columns.record()} if layout == RECORDS else {name: columns.dtype(name) for name in NAMES}


def touched(layout: str, chunk: Chunk) -> list[str]:
    """The arrays that hold these columns."""
    return [WHOLE] if layout == RECORDS else list(chunk)


def store(layout: str, arrays: Mapping[str, Any], start: int, chunk: Chunk) -> None:
    """Writes columns of rows from `start` on into the arrays."""
    for name, values in chunk.items():
        rows = slice(start, start + len(values))
        if layout == RECORDS:
            arrays[WHOLE][name][rows] = values
        else:
            arrays[name][rows] = values


class Held:
    """What reads, and updates: see `dyno.suites.arrays.port.Arrays`. The arrays are all in the process's memory, or
    mapped there."""

    def __init__(self, layout: str, arrays: Mapping[str, Any]) -> None:
        self._layout, self._arrays = layout, arrays

    def _column(self, name: str) -> Any:
        return self._arrays[WHOLE][name] if self._layout == RECORDS else self._arrays[name]

    def sum(self, column: str) -> Any:
        if BY_NAME[column].exact:
            return int(self._column(column).sum())
        return float(self._column(column).sum())

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        # NumPy's own would have another array of that size.
        return [columns.moments(partial(columns.pieces, self._column(name))) for name in names]

    def slice(self, rows: range) -> Chunk:
        return {name: self._column(name)[rows.start : rows.stop].copy() for name in NAMES}

    def frame(self, names: Sequence[str]) -> Any:
        from pandas import DataFrame

        return DataFrame({name: self._column(name) for name in names}, copy=False)

    def change(self, change: Change) -> None:
        store(self._layout, self._arrays, change.start, change.values)
