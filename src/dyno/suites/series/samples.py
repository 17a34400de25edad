"""Conversions between samples and columns, rows, CSV and Arrow tables, and the digest over samples.

Functions import NumPy when called, since the parent imports engines' files, which import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from dyno.suites.series.port import DTYPES, FIELDS, Array, Buckets, SampleBatch, Samples

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.csv import ConvertOptions

SampleRow = tuple[int, int, float, int, int]
"""A sample: variable, time, value, status, severity."""
MASK = (1 << 64) - 1
# Odd numbers without a pattern, one for each field (from xxHash and SplitMix64).
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63)


@dataclass
class Digest:
    """Number of samples, and the sum of a hash over all fields of each. Independent of the samples' order."""

    count: int = 0
    total: int = 0

    def add(self, batch: SampleBatch, times: int = 1) -> None:
        """Adds a batch, or subtracts it with times=-1. Arrays must have the port's types."""
        import numpy as np

        mixed = np.zeros(len(batch.ts), np.uint64)
        for values, factor in zip(batch, _FACTORS, strict=True):
            # Hash the bits of a double: -0.0 and 0.0 are different values.
            if values.dtype == np.float64:
                bits = values.view(np.uint64)
            else:
                bits = values.astype(np.uint64)
            # The factor spreads a field over the high bits. The shift moves them to the low bits for the next factor.
            mixed ^= bits
            mixed *= np.uint64(factor)
            mixed ^= mixed >> np.uint64(29)
        self.count += times * len(batch.ts)
        self.total = (self.total + times * int(mixed.sum(dtype=np.uint64))) & MASK

    def __str__(self) -> str:
        return f"{self.count:,} samples of digest {self.total:016x}"


def is_typed(batch: object) -> TypeGuard[SampleBatch]:
    """Returns whether `batch` is a SampleBatch of arrays of equal length with exactly the port's types."""
    import numpy as np

    return (
        type(batch) is SampleBatch
        and all(
            type(values) is np.ndarray and values.dtype == DTYPES[name] and values.ndim == 1
            for name, values in zip(FIELDS, batch, strict=True)
        )
        and len({len(values) for values in batch}) == 1
    )


def batch(columns: Sequence[object]) -> SampleBatch:
    """Returns a batch from sequences of numbers or arrays, in the order of the fields."""
    return SampleBatch(*_arrays(columns, FIELDS))


def samples(columns: Sequence[object]) -> Samples:
    return Samples(*_arrays(columns, FIELDS[1:]))


def buckets(columns: Sequence[object]) -> Buckets:
    return Buckets(*_arrays(columns, ("ts", "val", "val", "val")))


def _arrays(columns: Sequence[object], names: Iterable[str]) -> list[Array]:
    import numpy as np

    return [np.ascontiguousarray(values, DTYPES[name]) for name, values in zip(names, columns, strict=True)]


def columns_of(rows: Sequence[Sequence[object]], names: int = len(FIELDS)) -> list[Sequence[Any]]:
    """Transposes rows of a client library to columns."""
    if rows:
        return list(zip(*rows, strict=True))
    return [()] * names


def iterate_rows(batch: SampleBatch) -> Iterable[tuple[Any, ...]]:
    """Yields rows of Python numbers."""
    return zip(*(values.tolist() for values in batch), strict=True)


def to_csv(batch: SampleBatch) -> pyarrow.Buffer:
    """Returns CSV without a header, as a buffer. Floats have the shortest text of the same value."""
    import pyarrow
    from pyarrow.csv import WriteOptions, write_csv

    stream = pyarrow.BufferOutputStream()
    write_csv(pyarrow.table(batch._asdict()), stream, WriteOptions(include_header=False))
    return stream.getvalue()


def batch_of_table(table: pyarrow.Table, name: str, rest: Sequence[str], numbers: Mapping[str, int]) -> SampleBatch:
    """Converts an Arrow table or record batch whose rows have the dictionary-encoded name of their variable, in the
    column `name`. `numbers`: the port's number of each name. `rest`: columns of time, value, status, severity."""
    import numpy as np

    names = table.column(name)
    if hasattr(names, "combine_chunks"):
        names = names.combine_chunks()
    # The dictionary may have entries that no row uses, and which are not names of variables.
    known = np.array([numbers.get(entry, -1) for entry in names.dictionary.to_pylist()], "i4")
    return batch([known[names.indices.to_numpy()], *(table.column(field).to_numpy() for field in rest)])


def csv_types(names: str, whole: Sequence[str], doubles: Sequence[str]) -> ConvertOptions:
    """Returns column types for Arrow's CSV reader, which would otherwise guess them from the first rows."""
    import pyarrow
    from pyarrow import csv

    return csv.ConvertOptions(
        column_types={
            names: pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
            **dict.fromkeys(whole, pyarrow.int64()),
            **dict.fromkeys(doubles, pyarrow.float64()),
        }
    )


def latest_versions(columns: Sequence[Array]) -> list[Array]:
    """Sorts columns by variable and time, and keeps the last row of each variable and time."""
    import numpy as np

    pv, ts = columns[:2]
    order = np.lexsort((ts, pv))
    pv, ts = pv[order], ts[order]
    kept = np.append((pv[1:] != pv[:-1]) | (ts[1:] != ts[:-1]), True)[: len(order)]
    return [column[order[kept]] for column in columns]


class VariableIds:
    """Maps the port's numbers of variables (positions in the names that it was opened with) to the store's ids."""

    def __init__(self, names: Sequence[str], stored: Sequence[tuple[int, str]]) -> None:
        """`stored`: the store's ids and names, which include all `names`. Ids usually count from 0 up."""
        import numpy as np

        ids = {name: number for number, name in stored}
        self.count = len(ids)
        """Number of variables in the store."""
        self.stored = np.array([ids[name] for name in names], "i4")
        """The store's ids, by the port's numbers."""
        self._numbers = np.full(max(ids.values(), default=-1) + 1, -1, "i4")
        self._numbers[self.stored] = np.arange(len(names), dtype="i4")
        self._same = bool((self.stored == np.arange(len(names))).all())

    def to_store(self, numbers: Array) -> Array:
        if self._same:
            return numbers
        return self.stored[numbers]

    def from_store(self, ids: object) -> Array:
        import numpy as np

        array = np.ascontiguousarray(ids, "i4")
        if self._same:
            return array
        return self._numbers[array]

    def one(self, number: int) -> int:
        """Returns the store's id of one variable."""
        return int(self.stored[number])
