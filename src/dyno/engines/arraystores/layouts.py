"""The table of the port `arrays` as NumPy arrays, by columns or by rows."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dyno.contracts.settings import Setting, choice
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import BY_NAME, NAMES, Arrays, Change, Chunk

COLUMNS, RECORDS = "columns", "records"
WHOLE = "stock"
"""Name of the only array in the layout `records`."""
LAYOUT = Setting(
    "layout",
    choice(COLUMNS, RECORDS),
    COLUMNS,
    "columns: an array for each column; records: one array of rows, as in the published test",
)


def dtypes(layout: str) -> dict[str, Any]:
    """Returns the data types of the arrays, by name."""
    return {WHOLE: columns.record()} if layout == RECORDS else {name: columns.dtype(name) for name in NAMES}


def store(layout: str, arrays: Mapping[str, Any], start: int, chunk: Chunk) -> None:
    """Writes a chunk of rows into the arrays, from row `start` on."""
    for name, values in chunk.items():
        rows = slice(start, start + len(values))
        if layout == RECORDS:
            arrays[WHOLE][name][rows] = values
        else:
            arrays[name][rows] = values


class NumpyArrays(Arrays):
    """Reads and updates NumPy arrays in memory or mapped from files."""

    def __init__(self, layout: str, arrays: Mapping[str, Any]) -> None:
        self._layout, self._arrays = layout, arrays

    def _column(self, name: str) -> Any:
        return self._arrays[WHOLE][name] if self._layout == RECORDS else self._arrays[name]

    def _store(self, start: int, chunk: Chunk) -> None:
        store(self._layout, self._arrays, start, chunk)

    def sum(self, column: str) -> Any:
        value = self._column(column).sum()
        return int(value) if BY_NAME[column].exact else float(value)

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        # NumPy's std would allocate another array of the same size.
        return [columns.moments(partial(columns.pieces, self._column(name))) for name in names]

    def slice(self, rows: range) -> Chunk:
        return {name: self._column(name)[rows.start : rows.stop].copy() for name in NAMES}

    def frame(self, names: Sequence[str]) -> Any:
        from pandas import DataFrame

        return DataFrame({name: self._column(name) for name in names}, copy=False)

    def update(self, change: Change) -> None:
        self._store(change.start, change.values)
