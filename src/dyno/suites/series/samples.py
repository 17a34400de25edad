"""What engines share that keep or hand over samples as columns, and the digest by which all are held to be the same.
No engine may be named here. NumPy is imported where it is used: engines' files, which import this one, are read by
the parent too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dyno.suites.series.port import DTYPES, FIELDS, Array, Buckets, SampleBatch, Samples

MASK = (1 << 64) - 1
# Odd numbers without a pattern, one for each field (those of xxHash and of SplitMix64).
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63)


class Digest:
    """How many samples there are, and a sum over a hash of each, all fields in it: the same in whatever order they
    come."""

    def __init__(self, count: int = 0, total: int = 0) -> None:
        self.count, self.total = count, total

    def add(self, batch: SampleBatch, times: int = 1) -> None:
        """Or takes it away: times -1. Arrays must be of the port's types."""
        self.count += times * len(batch.ts)
        self.total = (self.total + times * _hashes(batch)) & MASK

    def __str__(self) -> str:
        return f"{self.count:,} samples of digest {self.total:016x}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and (self.count, self.total) == (other.count, other.total)

    __hash__ = None  # type: ignore[assignment]


def _hashes(batch: SampleBatch) -> int:
    import numpy as np

    mixed = np.zeros(len(batch.ts), np.uint64)
    for values, factor in zip(batch, _FACTORS, strict=True):
        # The bits of a double as they are, and -0.0 is another value than 0.0.
        bits = values.view(np.uint64) if values.dtype == np.float64 else values.astype(np.uint64)
        # The factor spreads a field over the high bits, and the shift brings these to the next factor's low ones.
        mixed ^= bits
        mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(29)
    return int(mixed.sum(dtype=np.uint64))


def typed(batch: Any) -> bool:
    """Whether its arrays are of exactly the port's types, and of one length."""
    import numpy as np

    return (
        type(batch) is SampleBatch
        and all(
            type(values) is np.ndarray and values.dtype == DTYPES[name] and values.ndim == 1
            for name, values in zip(FIELDS, batch, strict=True)
        )
        and len({len(values) for values in batch}) == 1
    )


def batch(columns: Sequence[Any]) -> SampleBatch:
    """Of sequences of plain numbers or arrays, in the order of the fields."""
    return SampleBatch(*_arrays(columns, FIELDS))


def samples(columns: Sequence[Any]) -> Samples:
    return Samples(*_arrays(columns, FIELDS[1:]))


def buckets(columns: Sequence[Any]) -> Buckets:
    """The means as doubles."""
    return Buckets(*_arrays(columns, ("ts", "val", "val", "val")))


def _arrays(columns: Sequence[Any], names: Iterable[str]) -> list[Array]:
    import numpy as np

    return [np.ascontiguousarray(values, DTYPES[name]) for name, values in zip(names, columns, strict=True)]


def of_rows(rows: Sequence[Sequence[Any]], names: int = len(FIELDS)) -> list[Sequence[Any]]:
    """Columns of rows as a client library gives them."""
    return list(zip(*rows, strict=True)) if rows else [()] * names


def tuples(given: SampleBatch) -> Iterable[tuple[Any, ...]]:
    """Rows of plain numbers."""
    return zip(*(values.tolist() for values in given), strict=True)


def csv(given: SampleBatch) -> Any:
    """Rows as CSV without a heading: a buffer of bytes. Floats by the shortest text that is read as the same ones."""
    import pyarrow
    from pyarrow.csv import WriteOptions, write_csv

    stream = pyarrow.BufferOutputStream()
    write_csv(pyarrow.table(given._asdict()), stream, WriteOptions(include_header=False))
    return stream.getvalue()


def reduced(found: Samples, bucket: int) -> Buckets:
    """Means, least and greatest values by stretches: for a store that can't work them out."""
    import numpy as np

    begins = found.ts - found.ts % bucket
    if not len(begins):
        return buckets([()] * 4)
    first = np.flatnonzero(np.r_[True, begins[1:] != begins[:-1]])
    counts = np.diff(np.r_[first, len(begins)])
    return Buckets(
        begins[first],
        np.add.reduceat(found.val, first) / counts,
        np.minimum.reduceat(found.val, first),
        np.maximum.reduceat(found.val, first),
    )


def last(columns: Sequence[Array]) -> list[Array]:
    """Sorted by variable and time; of those that are the same in both the last."""
    import numpy as np

    pv, ts = columns[:2]
    order = np.lexsort((ts, pv))
    sorted_pv, sorted_ts = pv[order], ts[order]
    kept = np.append((sorted_pv[1:] != sorted_pv[:-1]) | (sorted_ts[1:] != sorted_ts[:-1]), True)[: len(order)]
    return [column[order[kept]] for column in columns]


class Numbers:
    """Names that a store has numbers of its own for, against those that the port was opened with."""

    def __init__(self, names: Sequence[str], stored: Sequence[tuple[int, str]]) -> None:
        """`stored`: every name that was given, with the store's number, from 0 up without a gap as a rule."""
        import numpy as np

        at = {name: number for number, name in stored}
        self.count = len(at)
        """Of those that the store has."""
        self.stored = np.array([at[name] for name in names], "i4")
        """By the port's number."""
        self._given = np.full(max(at.values(), default=-1) + 1, -1, "i4")
        self._given[self.stored] = np.arange(len(names), dtype="i4")
        self._same = bool((self.stored == np.arange(len(names))).all())

    def to_store(self, given: Array) -> Array:
        return given if self._same else self.stored[given]

    def from_store(self, found: Any) -> Array:
        import numpy as np

        numbers = np.ascontiguousarray(found, "i4")
        return numbers if self._same else self._given[numbers]

    def one(self, given: int) -> int:
        """The store's number of a variable."""
        return int(self.stored[given])
