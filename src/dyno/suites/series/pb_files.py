"""PB files of an EPICS Archiver Appliance as a dataset, read by the library of the European Spallation Source.

Each file is read once, into an array on disk for each variable, so that the whole dataset is never in memory. Samples
are scalar numbers. NaN, infinities, and all but the last of several samples of one variable and time are dropped.
Files of other types are skipped and counted.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import Refused
from dyno.host import installation
from dyno.suites.series import PB
from dyno.suites.series.dataset import SECOND, Arrival
from dyno.suites.series.port import SampleBatch, Samples

MINUTE = 60 * SECOND
SAMPLE_DTYPE = np.dtype([("ts", "i8"), ("val", "f8"), ("stat", "i2"), ("sevr", "i2")])


class PbDataset:
    """Samples from PB files, in the order of their times. See `dyno.suites.series.dataset.Dataset`."""

    def __init__(self, files: Path, directory: Path, batch: int) -> None:
        """Stores a file, or all below a directory, as arrays in `directory`. Raises Refused without samples."""
        directory.mkdir(parents=True, exist_ok=True)
        pieces, self.left_out = _read(files)
        if not pieces:
            raise Refused(f"{files}: no PB file in it has a sample that is a scalar number")
        self.names = sorted(pieces)
        self._arrays = [_store(pieces.pop(name), directory / f"{at}.npy") for at, name in enumerate(self.names)]
        self.total = sum(map(len, self._arrays))
        first = min(int(array["ts"][0]) for array in self._arrays)
        self._last = max(int(array["ts"][-1]) for array in self._arrays)
        self.start, self.end = first // MINUTE * MINUTE, self._last // MINUTE * MINUTE + MINUTE
        self._step = max((self.end - self.start) * batch // self.total, 1)

    def arrivals(self) -> Iterator[Arrival]:
        """Yields batches by intervals of equal length, on average of about `batch` samples. Skips empty ones."""
        for start in range(self.start, self.end, self._step):
            parts = [self._samples_between(pv, start, start + self._step) for pv in range(len(self.names))]
            batch = SampleBatch(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
            if len(batch.ts):
                order = np.argsort(batch.ts, kind="stable")
                yield Arrival(SampleBatch(*(values[order] for values in batch)), len(order), None)

    def further_batches(self, batches: int) -> Iterator[Arrival]:
        """Yields batches with the last sample of each variable again, at later times."""
        lasts = [self._rows(pv, array[-1:]) for pv, array in enumerate(self._arrays)]
        batch = SampleBatch(*(np.concatenate(columns) for columns in zip(*lasts, strict=True)))
        for number in range(batches):
            ts = np.arange(len(self.names), dtype="i8") + self.end + number * SECOND
            yield Arrival(batch._replace(ts=ts), len(ts), None)

    def one(self, pv: int) -> Samples:
        return Samples(*self._rows(pv, self._arrays[pv])[1:])

    def _samples_between(self, pv: int, start: int, end: int) -> SampleBatch:
        array = self._arrays[pv]
        first, last = np.searchsorted(array["ts"], [start, end])
        return self._rows(pv, array[first:last])

    def _rows(self, pv: int, rows: NDArray[np.void]) -> SampleBatch:
        columns = (np.ascontiguousarray(rows[name]) for name in SAMPLE_DTYPE.names or ())
        return SampleBatch(np.full(len(rows), pv, "i4"), *columns)


def _read(files: Path) -> tuple[dict[str, list[NDArray[np.void]]], int]:
    """Returns samples by the name of the variable, one array for each file, and the number of skipped files."""
    try:
        from epicsarchiver.retrieval import pb
    except ImportError:
        raise Refused(f"PB files need epicsarchiver: {installation.extra_command('archiver')}") from None
    pieces: dict[str, list[NDArray[np.void]]] = {}
    left_out = 0
    for path in sorted(files.rglob(f"*{PB}")) if files.is_dir() else [files]:
        try:
            headers, events = pb.read_pb_file(str(path))
        except Exception as error:
            # The library raises various exceptions for files of another format.
            raise Refused(f"{path}: is not a PB file of an Archiver Appliance: {error}") from None
        rows = [
            (event.timestamp_ns, float(event.val), event.status, event.severity)
            for event in events
            if isinstance(event.val, (int, float))
        ]
        samples = np.array(rows, SAMPLE_DTYPE)
        samples = samples[np.isfinite(samples["val"])]
        left_out += not len(samples)
        if len(samples):
            name = next((header.pv_name for header in headers.values()), path.stem)
            pieces.setdefault(name, []).append(samples)
    return pieces, left_out


def _store(pieces: list[NDArray[np.void]], path: Path) -> NDArray[np.void]:
    """Sorts samples by time, keeps the last sample of each time, and stores them as an array on disk."""
    whole = np.concatenate(pieces)
    whole = whole[np.argsort(whole["ts"], kind="stable")]
    np.save(path, whole[np.append(whole["ts"][1:] != whole["ts"][:-1], True)])
    stored: NDArray[np.void] = np.load(path, mmap_mode="r")
    return stored
