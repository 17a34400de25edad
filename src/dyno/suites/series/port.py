"""The port `series`: what an engine implements to take part as an archive of process variables.

A sample has a variable (PV), a time (TS, whole ns since 1970, UTC), a value (VAL, a double that is neither NaN nor
infinite), a status (STAT) and a severity (SEVR), both small whole numbers as EPICS has them. Nothing here imports
NumPy: engines' files are read by the parent, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

PORT = "series"
Array = Any
"""A NumPy array of one dimension."""

FIELDS = ("pv", "ts", "val", "stat", "sevr")
DTYPES = {"pv": "i4", "ts": "i8", "val": "f8", "stat": "i2", "sevr": "i2"}
"""Of the arrays, in NumPy's words; those that come back have exactly these."""
SAMPLE_BYTES = 24
"""Of a sample as arrays."""
MODULES, REQUIRES = ("pyarrow",), ("pyarrow>=15",)
"""What an engine wants through this port that is handed tables of Arrow's."""


class SampleBatch(NamedTuple):
    """Samples of many variables: an array of each field, all of one length."""

    pv: Array
    """Which variable: its place in the names that the port was opened with."""
    ts: Array
    val: Array
    stat: Array
    sevr: Array


class Samples(NamedTuple):
    """Samples of one variable, in the order of their times."""

    ts: Array
    val: Array
    stat: Array
    sevr: Array


class Buckets(NamedTuple):
    """What the values of one variable were in stretches of time of one length, in order: those that have some."""

    ts: Array
    """When each stretch begins: a multiple of its length."""
    mean: Array
    low: Array
    high: Array


class Series(Protocol):
    """Engines implement it as a class called with `(engine, names)`: the names of all variables, as text of up to 60
    bytes of ASCII. An archive that is opened again may be given them in another order, and with more of them: it
    keeps names, and not only numbers. Nobody else is at the archive.

    **What a duplicate does.** A sample is known by PV and TS. One that arrives again takes the place of the one that
    is there: the last written wins, with all its fields, and it is there once. No batch has the same PV and TS twice.
    An archive that knows only identical ones apart from new ones has a gap at the check `corrections`.

    **What a late one does.** It is there as if it had come in time: batches are in the order of arrival, and some
    samples in them are older than what is there.
    """

    def insert(self, batch: SampleBatch) -> object:
        """One batch, as one transaction: acknowledged when it returns, with the tier's durability. It need not be
        readable yet."""

    def settle(self) -> None:
        """Returns when everything that was acknowledged can be read, by the engine's own means. Never timed."""

    def seen(self, pv: int, ts: int) -> bool:
        """Whether this sample can be read now: what the delay from acknowledged to visible is measured by. Cheap."""

    def one(self, pv: int) -> Samples:
        """All samples of a variable."""

    def window(self, pv: int, start: int, end: int) -> Samples:
        """Those of start <= TS < end, in ns; both are whole seconds."""

    def all(self) -> Iterator[SampleBatch]:
        """Every sample of every variable in any order, piece by piece: never all in memory that is not there
        already."""

    def latest(self) -> SampleBatch:
        """Of each variable that has samples the one with the greatest TS, in any order of the variables."""

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        """Of the samples of a variable with start <= TS < end, by stretches of so many ns, worked out by the engine
        where it can. Start, end and bucket are whole minutes."""

    def close(self) -> None: ...
