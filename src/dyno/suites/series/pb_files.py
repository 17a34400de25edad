"""Samples of an EPICS Archiver Appliance: its PB files as a dataset, read by the library that the European Spallation
Source keeps for them.

Each file is read once, into an array of samples on disk for each variable, so that never the whole is in memory. Only
scalar numbers are samples here. What is no number (NaN, infinity), and the second of two samples of one variable and
time, is left out; so are files of other types, each of which is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import Refused
from dyno.host import installation
from dyno.suites.series.dataset import Arrival
from dyno.suites.series.facility import SECOND
from dyno.suites.series.params import PB
from dyno.suites.series.port import SampleBatch, Samples

MINUTE = 60 * SECOND
SAMPLE_DTYPE = np.dtype([("ts", "i8"), ("val", "f8"), ("stat", "i2"), ("sevr", "i2")])


class PbDataset:
    """See `dyno.suites.series.dataset.Dataset`. Samples arrive in the order of their times."""

    def __init__(self, files: Path, place: Path, batch: int) -> None:
        """`place`: a directory for the arrays. Raises Refused where there is nothing to be read."""
        place.mkdir(parents=True, exist_ok=True)
        found, self.left_out = _read(files)
        if not found:
            raise Refused(f"{files}: no PB file in it has a sample that is a scalar number")
        self.names = sorted(found)
        self._arrays = [_kept(found.pop(name), place / f"{number}.npy") for number, name in enumerate(self.names)]
        self.total = sum(map(len, self._arrays))
        first = min(int(array["ts"][0]) for array in self._arrays)
        self._last = max(int(array["ts"][-1]) for array in self._arrays)
        self.start, self.end = first // MINUTE * MINUTE, self._last // MINUTE * MINUTE + MINUTE
        self._step = max((self.end - self.start) * batch // self.total, 1)

    def arrivals(self) -> Iterator[Arrival]:
        """Stretches of time of one length, which have about so many samples as a batch has; some have none."""
        for start in range(self.start, self.end, self._step):
            parts = [self._between(pv, start, start + self._step) for pv in range(len(self.names))]
            batch = SampleBatch(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
            if len(batch.ts):
                order = np.argsort(batch.ts, kind="stable")
                yield Arrival(SampleBatch(*(values[order] for values in batch)), len(order), None)

    def further(self, batches: int) -> Iterator[Arrival]:
        """The last sample of each variable again, at later times."""
        lasts = [self._rows(pv, array[-1:]) for pv, array in enumerate(self._arrays)]
        batch = SampleBatch(*(np.concatenate(columns) for columns in zip(*lasts, strict=True)))
        for number in range(batches):
            ts = np.arange(len(self.names), dtype="i8") + self.end + number * SECOND
            yield Arrival(batch._replace(ts=ts), len(ts), None)

    def one(self, pv: int) -> Samples:
        return Samples(*self._rows(pv, self._arrays[pv])[1:])

    def _between(self, pv: int, start: int, end: int) -> SampleBatch:
        array = self._arrays[pv]
        first, last = np.searchsorted(array["ts"], [start, end])
        return self._rows(pv, array[first:last])

    def _rows(self, pv: int, rows: NDArray[Any]) -> SampleBatch:
        columns = (np.ascontiguousarray(rows[name]) for name in SAMPLE_DTYPE.names or ())
        return SampleBatch(np.full(len(rows), pv, "i4"), *columns)


def _read(files: Path) -> tuple[dict[str, list[NDArray[Any]]], int]:
    """Of a file, or of all in and below a directory: samples by the name of the variable, a piece for each file; and
    how many files were left out."""
    found: dict[str, list[NDArray[Any]]] = {}
    left_out = 0
    for path in sorted(files.rglob(f"*{PB}")) if files.is_dir() else [files]:
        name, rows = _parsed(path)
        left_out += not len(rows)
        if len(rows):
            found.setdefault(name, []).append(rows)
    return found, left_out


def _parsed(path: Path) -> tuple[str, NDArray[Any]]:
    """The variable of a file, and its samples; none of a file of another type."""
    try:
        from epicsarchiver.retrieval import pb
    except ImportError:
        raise Refused(f"PB files need epicsarchiver: {installation.extra('archiver')}") from None
    try:
        about, events = pb.read_pb_file(str(path))
    except Exception as error:
        # The library has errors of several others for what is no such file.
        raise Refused(f"{path}: is not a PB file of an Archiver Appliance: {error}") from None
    rows = [
        (event.timestamp_ns, float(event.val), event.status, event.severity)
        for event in events
        if isinstance(event.val, (int, float))
    ]
    found = np.array(rows, SAMPLE_DTYPE)
    return next((each.pv_name for each in about.values()), path.stem), found[np.isfinite(found["val"])]


def _kept(pieces: list[NDArray[Any]], path: Path) -> NDArray[Any]:
    """In the order of their times, of two of one time the last; on disk."""
    whole = np.concatenate(pieces)
    whole = whole[np.argsort(whole["ts"], kind="stable")]
    np.save(path, whole[np.append(whole["ts"][1:] != whole["ts"][:-1], True)])
    kept: NDArray[Any] = np.load(path, mmap_mode="r")
    return kept
