"""Conversions of columns to and from rows, Arrow and chunked arrays, and reductions that read piece by piece.

Functions import NumPy when called, since the parent imports engines' files, which import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from dyno.suites.arrays.port import BY_NAME, COLUMNS, NAMES, Chunk

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

Array = Any
"""A NumPy array."""
STEP = 1 << 20
"""Default number of values that are added up at once: 8 MB."""


@cache
def row_dtype() -> np.dtype[np.void]:
    """Returns the NumPy type of a row as one packed value."""
    import numpy as np

    return np.dtype([(column.name, column.dtype) for column in COLUMNS])


@cache
def dtype(name: str) -> np.dtype[np.generic]:
    """Returns the NumPy type of a column."""
    import numpy as np

    return np.dtype(BY_NAME[name].dtype)


def convert_to_stored(name: str, values: Array) -> Array:
    """Converts values for libraries without a type for times: times become whole numbers."""
    if BY_NAME[name].sql == "time":
        return values.view("i8")
    return values


def convert_from_stored(name: str, values: Array) -> Array:
    if BY_NAME[name].sql == "time":
        return values.view(dtype(name))
    return values


# -- rows of a client library -------------------------------------------------------------------------------


def tuples(chunk: Chunk) -> Iterator[tuple[object, ...]]:
    """Yields rows of Python values, with times as seconds since 1970."""
    types = {"text": "U", "time": "i8"}
    columns = (values.astype(types.get(BY_NAME[name].sql, values.dtype)) for name, values in chunk.items())
    return zip(*(values.tolist() for values in columns), strict=True)


def of_rows(rows: Sequence[Sequence[object]], names: Sequence[str] = NAMES) -> dict[str, Array]:
    """Converts a library's rows to columns. Times may be datetimes or seconds."""
    import numpy as np

    if rows:
        columns: Iterable[Sequence[object]] = zip(*rows, strict=True)
    else:
        columns = [()] * len(names)
    return {name: np.array(values, dtype(name)) for name, values in zip(names, columns, strict=True)}


# -- Arrow --------------------------------------------------------------------------------------------------


def table(chunk: Chunk) -> pyarrow.Table:
    """Converts a chunk to an Arrow table without copying numbers."""
    import pyarrow

    def column(name: str, values: Array) -> pyarrow.Array:
        array = pyarrow.array(values)
        if BY_NAME[name].sql == "text":
            return array.cast(pyarrow.string())
        return array

    return pyarrow.table({name: column(name, values) for name, values in chunk.items()})


def of_table(arrow: pyarrow.Table) -> dict[str, Array]:
    import numpy as np

    def column(name: str) -> Array:
        values = arrow.column(name)
        if BY_NAME[name].sql == "text":
            return np.array(values.to_pylist(), dtype(name))
        return np.ascontiguousarray(values.to_numpy(), dtype=dtype(name))

    return {name: column(name) for name in arrow.column_names}


def csv(chunk: Chunk) -> pyarrow.Buffer:
    """Converts a chunk to CSV in a buffer, without a header and with text in quotes. Floats keep all their bits."""
    import pyarrow
    from pyarrow.csv import WriteOptions, write_csv

    stream = pyarrow.BufferOutputStream()
    write_csv(table(chunk), stream, WriteOptions(include_header=False))
    return stream.getvalue()


# -- reductions piece by piece ------------------------------------------------------------------------------


def pieces(array: Array, step: int = STEP) -> Iterator[Array]:
    """Yields slices of anything that can be sliced like an array."""
    return (array[at : at + step] for at in range(0, len(array), step))


def sum_pieces(column: str, parts: Iterable[Array]) -> int | float:
    import numpy as np

    if BY_NAME[column].exact:
        # The sum of a piece fits into 64 bits, but the total may not.
        return sum(int(part.sum(dtype=np.int64)) for part in parts)
    return float(np.sum([part.sum() for part in parts]))


def moments(parts: Callable[[], Iterable[Array]]) -> tuple[float, float]:
    """Returns mean and standard deviation of a column's pieces. Reads twice, to avoid cancellation."""
    count = 0
    total = 0.0
    squares = 0.0
    for part in parts():
        count += len(part)
        total += float(part.sum(dtype=float))
    mean = total / count
    for part in parts():
        differences = part - mean
        # Avoid a dot product: NumPy's linear algebra would use several threads.
        differences *= differences
        squares += float(differences.sum())
    return mean, float((squares / count) ** 0.5)
