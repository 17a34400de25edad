"""The port `series` on an ordered key-value store, with an entry for each sample, by variable and time, and an entry
for each variable's name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from struct import Struct
from typing import Any

from dyno.suites.series import samples
from dyno.suites.series.port import Array, Buckets, SampleBatch, Samples, Series

KEY = Struct(">IQ")
"""Key of a sample, big-endian, so that keys have the order of variables and times."""
NAME = b"\xff\xff\xff\xff"
"""Prefix of the key of a name, which sorts after all variables. The value is the variable's id."""
NUMBER = Struct(">I")
MAX_TIME = (1 << 64) - 1
PIECE = 65_536
"""Number of entries that are decoded together when all samples are read."""

Entry = tuple[bytes, bytes]


class KeyedSeries(Series):
    """Base class for engines, which implement `put`, `get`, `scan` and `last`."""

    def __init__(self, names: Sequence[str]) -> None:
        with self.scan(NAME) as entries:
            ids = [(NUMBER.unpack(value)[0], key[len(NAME) :].decode()) for key, value in entries]
        known = {name for _, name in ids}
        new = list(enumerate((name for name in names if name not in known), len(ids)))
        self.put((NAME + name.encode(), NUMBER.pack(number)) for number, name in new)
        self._numbers = samples.VariableIds(names, [*ids, *new])
        self._end = max((number for number, _ in [*ids, *new]), default=-1) + 1

    def put(self, entries: Iterable[Entry]) -> None:
        """Writes entries in one transaction."""
        raise NotImplementedError

    def get(self, key: bytes) -> bytes | None:
        raise NotImplementedError

    def scan(self, first: bytes, end: bytes | None = None) -> AbstractContextManager[Iterator[Entry]]:
        """Yields the entries from `first` on, in order, up to but not including `end`."""
        raise NotImplementedError

    def last(self, numbers: range) -> Iterable[Entry | None]:
        """Yields the last sample of each variable. `numbers`: ids of the variables in the store."""
        raise NotImplementedError

    def insert(self, batch: SampleBatch) -> None:
        import numpy as np

        key_dtype, value_dtype = _dtypes()
        keys, values = np.empty(len(batch.ts), key_dtype), np.empty(len(batch.ts), value_dtype)
        for name, column in batch._replace(pv=self._numbers.to_store(batch.pv))._asdict().items():
            (keys if name in key_dtype.names else values)[name] = column
        self.put(zip(_row_bytes(keys), _row_bytes(values), strict=True))

    def seen(self, pv: int, ts: int) -> bool:
        return self.get(KEY.pack(self._numbers.one(pv), ts)) is not None

    def one(self, pv: int) -> Samples:
        return self.window(pv, 0, MAX_TIME)

    def window(self, pv: int, start: int, end: int) -> Samples:
        number = self._numbers.one(pv)
        with self.scan(KEY.pack(number, start), KEY.pack(number, end)) as entries:
            return samples.samples(_columns(entries)[1:])

    def all(self) -> Iterator[SampleBatch]:
        with self.scan(b"\0", KEY.pack(self._end, 0)) as entries:
            while piece := list(islice(entries, PIECE)):
                yield self._decode(piece)

    def latest(self) -> SampleBatch:
        return self._decode(filter(None, self.last(range(self._end))))

    def _decode(self, entries: Iterable[Entry]) -> SampleBatch:
        pv, *rest = _columns(entries)
        return samples.batch([self._numbers.from_store(pv), *rest])

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        return samples.downsample(self.window(pv, start, end), bucket)


def _dtypes() -> tuple[Any, Any]:
    import numpy as np

    return np.dtype([("pv", ">u4"), ("ts", ">u8")]), np.dtype([("val", "<f8"), ("stat", "<i2"), ("sevr", "<i2")])


def _row_bytes(rows: Any) -> Iterable[bytes]:
    whole, width = rows.tobytes(), rows.dtype.itemsize
    return (whole[at : at + width] for at in range(0, len(whole), width))


def _columns(entries: Iterable[Entry]) -> list[Array]:
    """Returns the columns of samples, in the order of a batch's fields."""
    import numpy as np

    key_dtype, value_dtype = _dtypes()
    pairs = list(entries)
    keys = np.frombuffer(b"".join(key for key, _ in pairs), key_dtype)
    values = np.frombuffer(b"".join(value for _, value in pairs), value_dtype)
    return [*(keys[name] for name in key_dtype.names), *(values[name] for name in value_dtype.names)]
