"""The port `series`: an archive of process variables.

A sample has a variable (PV), a time (TS, whole ns since 1970, UTC), a value (VAL, a finite double), a status (STAT)
and a severity (SEVR), both small integers as in EPICS. This module doesn't import NumPy, since the parent imports
engines' files, which import this module.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from dyno.contracts.installation import Installation

PORT = "series"
Array = Any
"""One-dimensional NumPy array."""

FIELDS = ("pv", "ts", "val", "stat", "sevr")
DTYPES = {"pv": "i4", "ts": "i8", "val": "f8", "stat": "i2", "sevr": "i2"}
"""NumPy data types of the arrays. Engines must return exactly these."""
SAMPLE_BYTES = 24
"""Number of bytes of a sample in arrays."""
INSTALLATION = Installation(modules=("pyarrow",), requires=("pyarrow>=15",))
"""Modules and packages for engines whose client uses Arrow tables."""


class SampleBatch(NamedTuple):
    """Samples of many variables: an array for each field, all of the same length."""

    pv: Array
    """Numbers of the variables: their positions in the names that the port was opened with."""
    ts: Array
    val: Array
    stat: Array
    sevr: Array


class Samples(NamedTuple):
    """Samples of one variable in time order."""

    ts: Array
    val: Array
    stat: Array
    sevr: Array


class Buckets(NamedTuple):
    """Summaries of one variable's values by intervals of equal length, in order. Empty intervals are left out."""

    ts: Array
    """Start of each interval, a multiple of its length."""
    mean: Array
    low: Array
    high: Array


class Series(Protocol):
    """An archive of process variables. Engines implement this protocol as a class called with `(engine, names)`.
    `names`: the names of all variables, each up to 60 bytes of ASCII. An archive that is opened again may get the
    names in another order, and more of them, so it must store names, not only numbers. An archive has no other
    clients.

    **Duplicates.** PV and TS identify a sample. If it arrives again, the last write replaces all fields, and the
    sample is stored once. No batch has the same PV and TS twice. An archive that only recognizes identical samples
    has a gap at the check `corrections`.

    **Late samples.** Batches are in the order of arrival; some of their samples are older than stored ones. Reads
    must return them in the order of time.
    """

    def insert(self, batch: SampleBatch) -> object:
        """Inserts a batch in one transaction. On return it has the tier's durability, but need not be readable."""

    def settle(self) -> None:
        """Waits until all acknowledged samples are readable, by the engine's own means. Never timed."""

    def seen(self, pv: int, ts: int) -> bool:
        """Returns whether a sample is readable now. Must be cheap, since it is polled to measure the delay."""

    def one(self, pv: int) -> Samples:
        """Returns all samples of a variable."""

    def window(self, pv: int, start: int, end: int) -> Samples:
        """Returns the samples with start <= TS < end, in ns. Both are whole seconds."""

    def all(self) -> Iterator[SampleBatch]:
        """Yields every sample in any order, in batches, so that they need not be in memory together."""

    def latest(self) -> SampleBatch:
        """Returns the sample with the greatest TS of each variable that has samples, in any order."""

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        """Returns summaries by intervals of `bucket` ns of the samples with start <= TS < end. Start, end and bucket
        are whole minutes. The engine computes them if it can; the default computes them in the client."""
        return downsample(self.window(pv, start, end), bucket)

    def close(self) -> None: ...


def downsample(series: Samples, bucket: int) -> Buckets:
    """Returns means, minima and maxima by buckets of `bucket` ns, for stores that can't compute them."""
    import numpy as np

    begins = series.ts - series.ts % bucket
    if not len(begins):
        return Buckets(begins, series.val, series.val, series.val)
    first = np.flatnonzero(np.r_[True, begins[1:] != begins[:-1]])
    sums, low, high = (each.reduceat(series.val, first) for each in (np.add, np.minimum, np.maximum))
    return Buckets(begins[first], sums / np.diff(np.r_[first, len(begins)]), low, high)
