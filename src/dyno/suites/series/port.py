"""The port `series`: an archive of process variables.

A sample has a variable (PV), a time (TS, whole ns since 1970, UTC), a value (VAL, a finite double), a status (STAT)
and a severity (SEVR), both small integers as in EPICS. This module doesn't import NumPy, because the parent imports
engines' files and so this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

PORT = "series"
Array = Any
"""A NumPy array of one dimension."""

FIELDS = ("pv", "ts", "val", "stat", "sevr")
DTYPES = {"pv": "i4", "ts": "i8", "val": "f8", "stat": "i2", "sevr": "i2"}
"""NumPy data types of the arrays. Answers have exactly these."""
SAMPLE_BYTES = 24
"""Bytes of a sample in arrays."""
MODULES, REQUIRES = ("pyarrow",), ("pyarrow>=15",)
"""Needed by an engine whose client uses Arrow tables."""


class SampleBatch(NamedTuple):
    """Samples of many variables: an array for each field, all of one length."""

    pv: Array
    """Numbers of the variables: positions in the names that the port was opened with."""
    ts: Array
    val: Array
    stat: Array
    sevr: Array


class Samples(NamedTuple):
    """Samples of one variable in the order of time."""

    ts: Array
    val: Array
    stat: Array
    sevr: Array


class Buckets(NamedTuple):
    """Summaries of one variable's values by intervals of one length, in order. Empty intervals are left out."""

    ts: Array
    """Start of each interval, a multiple of its length."""
    mean: Array
    low: Array
    high: Array


class Series(Protocol):
    """Engines implement it as a class called with `(engine, names)`: the names of all variables, each up to 60 bytes
    of ASCII. An archive that is opened again may get the names in another order, and more of them, so it must store
    names, not only numbers. An archive has no other clients.

    **Duplicates.** PV and TS identify a sample. If it arrives again, the last write replaces all fields, and the
    sample is stored once. No batch has the same PV and TS twice. An archive that only recognizes identical samples
    has a gap at the check `corrections`.

    **Late samples.** Batches are in the order of arrival; some of their samples are older than stored ones. Reads
    must return them in the order of time.
    """

    def insert(self, batch: SampleBatch) -> object:
        """Inserts a batch in one transaction. On return it is acknowledged with the tier's durability, but need not
        be readable yet."""

    def settle(self) -> None:
        """Returns once everything acknowledged is readable, by the engine's own means. Never timed."""

    def seen(self, pv: int, ts: int) -> bool:
        """Whether a sample is readable now. Must be cheap: it is polled to measure the delay until it is."""

    def one(self, pv: int) -> Samples:
        """All samples of a variable."""

    def window(self, pv: int, start: int, end: int) -> Samples:
        """The samples with start <= TS < end, in ns; both are whole seconds."""

    def all(self) -> Iterator[SampleBatch]:
        """Every sample of every variable in any order, in batches, so that they need not be in memory together."""

    def latest(self) -> SampleBatch:
        """The sample with the greatest TS of each variable that has samples, in any order of the variables."""

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        """Summaries by intervals of `bucket` ns of the samples with start <= TS < end, computed by the engine if it
        can. Start, end and bucket are whole minutes."""

    def close(self) -> None: ...
