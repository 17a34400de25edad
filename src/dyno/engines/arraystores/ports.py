"""The port `arrays` on NumPy arrays, by columns or by rows, and for libraries that store columns in chunks; and the
port `ndarrays` for those libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.engine import Engine
from dyno.contracts.model import Value
from dyno.contracts.settings import Setting, choice
from dyno.suites.arrays import columns
from dyno.suites.arrays.port import BY_NAME, NAMES, Arrays, Change, Chunk
from dyno.suites.ndarrays import DTYPE, Block, Ndarrays, Region

if TYPE_CHECKING:
    import numpy as np
    import pandas

COLUMNS, RECORDS = "columns", "records"
WHOLE = "stock"
"""Name of the only array in the layout `records`."""
LAYOUT = Setting(
    "layout",
    choice(COLUMNS, RECORDS),
    COLUMNS,
    "columns: an array for each column; records: one array of rows, as in the published test",
)


def dtypes(layout: str) -> dict[str, np.dtype]:
    """Returns the data types of the arrays, by name."""
    if layout == RECORDS:
        return {WHOLE: columns.row_dtype()}
    return {name: columns.dtype(name) for name in NAMES}


def store(layout: str, arrays: Mapping[str, np.ndarray], start: int, chunk: Chunk) -> None:
    """Writes a chunk of rows into the arrays, from row `start` on."""
    for name, values in chunk.items():
        rows = slice(start, start + len(values))
        if layout == RECORDS:
            arrays[WHOLE][name][rows] = values
        else:
            arrays[name][rows] = values


class NumpyArrays(Arrays):
    """Reads and updates NumPy arrays in memory or mapped from files."""

    def __init__(self, layout: str, arrays: Mapping[str, np.ndarray]) -> None:
        self._layout, self._arrays = layout, arrays

    def _column(self, name: str) -> np.ndarray:
        if self._layout == RECORDS:
            return self._arrays[WHOLE][name]
        return self._arrays[name]

    def _store(self, start: int, chunk: Chunk) -> None:
        store(self._layout, self._arrays, start, chunk)

    def sum(self, column: str) -> int | float:
        value = self._column(column).sum()
        if BY_NAME[column].exact:
            return int(value)
        return float(value)

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        # NumPy's std would allocate another array of the same size.
        return [columns.moments(partial(columns.pieces, self._column(name))) for name in names]

    def slice(self, rows: range) -> Chunk:
        return {name: self._column(name)[rows.start : rows.stop].copy() for name in NAMES}

    def frame(self, names: Sequence[str]) -> pandas.DataFrame:
        from pandas import DataFrame

        return DataFrame({name: self._column(name) for name in names}, copy=False)

    def update(self, change: Change) -> None:
        self._store(change.start, change.values)


ROWS, ARRAY = "rows", "array"
"""Name of the attribute that holds the number of rows, and of the only array of the port `ndarrays`."""


class Appender:
    """Appends chunks. `rows` is the number of rows so far, which is the position of the next chunk."""

    def __init__(self, rows: int, store: Callable[[int, Chunk], object]) -> None:
        self.rows, self._store = rows, store

    def __call__(self, chunk: Chunk) -> None:
        self._store(self.rows, chunk)
        self.rows += len(next(iter(chunk.values())))


class GroupStore(Engine):
    """Base of engines that store a group of arrays. Through the port `arrays`, these are resizable, one per column,
    and an attribute has the number of rows."""

    group: Any
    arrays: dict[str, Any]

    def create(self, name: str, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype | str) -> object:
        """Creates an array in the group."""
        raise NotImplementedError

    def _open(self, options: Mapping[str, Value]) -> None:
        """Opens the arrays of a group. Creates those of the table in a new group, if the options are of its port."""
        if "chunk_rows" in options and ROWS not in self.group.attrs:
            for name in NAMES:
                dtype = columns.dtype(name)
                # Store times as integers: HDF5 has no type for times, and Zarr's type has no standard yet.
                self.create(name, (0,), (int(options["chunk_rows"]),), "i8" if dtype.kind == "M" else dtype)
            self.group.attrs[ROWS] = 0
        names = NAMES if "chunk_rows" in options else (ARRAY,)
        self.arrays = {name: self.group[name] for name in names if name in self.group}

    @property
    def rows(self) -> int:
        return int(self.group.attrs[ROWS])

    def resize(self, rows: int) -> None:
        for array in self.arrays.values():
            array.resize((rows,))

    def commit(self, rows: int) -> None:
        """Stores the number of rows, which ends a transaction."""
        self.group.attrs[ROWS] = rows
        self.flush()

    def flush(self) -> None:
        """Gives what was written to the kernel. The default does nothing, for libraries that have done so."""


class ChunkedArrays(Arrays):
    """Arrays that never load a whole column, except for a DataFrame."""

    step = columns.STEP
    """Number of rows to read at once."""

    def __init__(self, engine: Any) -> None:
        self._engine: Any = engine
        self.rows: int = engine.rows

    def column(self, name: str) -> Any:
        """Returns an object that reads values when it is sliced. Times are integers."""
        return self._engine.arrays[name]

    def _store(self, start: int, chunk: Chunk) -> None:
        for name, values in chunk.items():
            self._engine.arrays[name][start : start + len(values)] = columns.convert_to_stored(name, values)

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        engine: GroupStore = self._engine
        write, announced = Appender(self.rows, self._store), self.rows + rows
        with undo_on_error(lambda: engine.resize(self.rows)):
            engine.resize(announced)
            yield write
            if write.rows < announced:
                engine.resize(write.rows)
            engine.commit(write.rows)
        self.rows = write.rows

    def update(self, change: Change) -> None:
        self._store(change.start, change.values)
        self._engine.flush()

    def _pieces(self, name: str) -> Iterator[np.ndarray]:
        column = self.column(name)
        return (column[at : min(at + self.step, self.rows)] for at in range(0, self.rows, self.step))

    def sum(self, name: str) -> int | float:
        return columns.sum_pieces(name, self._pieces(name))

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        return [columns.moments(partial(self._pieces, name)) for name in names]

    def slice(self, rows: range) -> Chunk:
        return {name: columns.convert_from_stored(name, self.column(name)[rows.start : rows.stop]) for name in NAMES}

    def frame(self, names: Sequence[str]) -> pandas.DataFrame:
        from pandas import DataFrame

        values = {name: columns.convert_from_stored(name, self.column(name)[: self.rows]) for name in names}
        return DataFrame(values, copy=False)


class ChunkedNdarrays(Ndarrays):
    """An N-dimensional array in a group."""

    def __init__(self, engine: GroupStore, shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
        self._engine = engine
        if ARRAY not in engine.arrays:
            engine.create(ARRAY, shape, chunks, DTYPE)
            engine.arrays[ARRAY] = engine.group[ARRAY]
        self._array = engine.arrays[ARRAY]

    def write(self, block: Block) -> None:
        self._array[block.region] = block.values
        self._engine.flush()

    def read(self, region: Region) -> Any:
        return self._array[region]
