"""Rows as columns: what engines share that get rows of a client library, or keep arrays of their own. No engine may
be named here. NumPy is imported where it is used: engines' files, which import this one, are read by the parent too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from dyno.suites.arrays.port import BY_NAME, COLUMNS, NAMES, Chunk

Array = Any
"""A NumPy array."""
STEP = 1 << 20
"""Values of a column that are added up at once, where nothing else says how many: 8 MB."""


@cache
def record() -> Any:
    """The type of a row as one value: the columns one after the other, without a gap between them."""
    import numpy as np

    return np.dtype([(column.name, column.dtype) for column in COLUMNS])


@cache
def dtype(name: str) -> Any:
    """Of a column's array."""
    import numpy as np

    return np.dtype(BY_NAME[name].dtype)


def stored(name: str, values: Array) -> Array:
    """For what knows no times: these as whole numbers, all others as they are."""
    return values.view("i8") if BY_NAME[name].sql == "time" else values


def restored(name: str, values: Array) -> Array:
    """The other way."""
    return values.view(dtype(name)) if BY_NAME[name].sql == "time" else values


# -- rows of a client library -------------------------------------------------------------------------------


def tuples(chunk: Chunk) -> Iterator[tuple[Any, ...]]:
    """Rows of whole numbers, floats and text; times as seconds since 1970."""
    return zip(*(_plain(name, values) for name, values in chunk.items()), strict=True)


def _plain(name: str, values: Array) -> Any:
    kind = BY_NAME[name].sql
    if kind == "text":
        return values.astype("U").tolist()
    return (values.astype("i8") if kind == "time" else values).tolist()


def of_rows(rows: Sequence[Sequence[Any]], names: Sequence[str] = NAMES) -> dict[str, Array]:
    """Columns of rows as a library gives them: times as datetime, or in seconds."""
    import numpy as np

    columns: Iterable[Sequence[Any]] = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: np.array(values, dtype(name)) for name, values in zip(names, columns, strict=True)}


# -- Arrow --------------------------------------------------------------------------------------------------


def table(chunk: Chunk) -> Any:
    """A chunk as a table of Arrow's. Of numbers nothing is copied."""
    import pyarrow

    def column(name: str, values: Array) -> Any:
        made = pyarrow.array(values)
        return made.cast(pyarrow.string()) if BY_NAME[name].sql == "text" else made

    return pyarrow.table({name: column(name, values) for name, values in chunk.items()})


def of_table(found: Any) -> dict[str, Array]:
    """A table of Arrow's as columns, of their own types."""
    return {name: of_arrow(name, found.column(name)) for name in found.column_names}


def of_arrow(name: str, values: Any) -> Array:
    """A column of Arrow's as an array of the column's own type."""
    import numpy as np

    if BY_NAME[name].sql == "text":
        return np.array(values.to_pylist(), dtype(name))
    return np.ascontiguousarray(values.to_numpy(), dtype=dtype(name))


def csv(chunk: Chunk) -> Any:
    """A chunk as CSV without a heading, text in quotes: a buffer of bytes. Floats by the shortest text that is read
    as the same ones."""
    import pyarrow
    from pyarrow.csv import WriteOptions, write_csv

    stream = pyarrow.BufferOutputStream()
    write_csv(table(chunk), stream, WriteOptions(include_header=False))
    return stream.getvalue()


# -- arrays that are read piece by piece --------------------------------------------------------------------


def pieces(array: Any, step: int = STEP) -> Iterator[Array]:
    """Of anything that is sliced like an array."""
    return (array[at : at + step] for at in range(0, len(array), step))


def added(column: str, parts: Iterable[Array]) -> int | float:
    """The sum of a column that comes piece by piece."""
    import numpy as np

    if BY_NAME[column].exact:
        # In 64 bits each, and beyond them all together.
        return sum(int(part.sum(dtype=np.int64)) for part in parts)
    return float(np.sum([part.sum() for part in parts]))


def moments(parts: Callable[[], Iterable[Array]]) -> tuple[float, float]:
    """Mean and deviation of a column that comes piece by piece, and is come for twice: the second time squares are
    taken from the mean, so that nothing cancels."""
    count, total, squares = 0, 0.0, 0.0
    for part in parts():
        count += len(part)
        total += float(part.sum(dtype=float))
    mean = total / count
    for part in parts():
        off = part - mean
        # Not their product as vectors: for that NumPy's library takes threads of its own.
        off *= off
        squares += float(off.sum())
    return mean, float((squares / count) ** 0.5)
