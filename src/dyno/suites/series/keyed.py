"""The port `series` on an ordered key-value store, with an entry for each sample and for each variable's name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from dyno.suites.series import samples
from dyno.suites.series.port import Array, SampleBatch, Samples, Series
from dyno.suites.series.sql import missing_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEY = Struct(">IQ")
"""Key of a sample, big-endian, so that keys have the order of variables and times."""
KEY_FIELDS, VALUE_FIELDS = [("pv", ">u4"), ("ts", ">u8")], [("val", "<f8"), ("stat", "<i2"), ("sevr", "<i2")]
"""NumPy types of the fields in a key and in a value."""
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
            known = {NUMBER.unpack(value)[0]: key[len(NAME) :].decode() for key, value in entries}
        new = missing_names(names, known)
        self.put((NAME + name.encode(), NUMBER.pack(number)) for number, name in new)
        known.update(new)
        self._numbers, self._end = samples.VariableIds(names, list(known.items())), max(known, default=-1) + 1

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

        keys, values = np.empty(len(batch.ts), KEY_FIELDS), np.empty(len(batch.ts), VALUE_FIELDS)
        for name, column in batch._replace(pv=self._numbers.to_store(batch.pv))._asdict().items():
            (keys if name in ("pv", "ts") else values)[name] = column

        def rows(array: NDArray[np.void]) -> Iterable[bytes]:
            whole, width = array.tobytes(), array.dtype.itemsize
            return (whole[at : at + width] for at in range(0, len(whole), width))

        self.put(zip(rows(keys), rows(values), strict=True))

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


def _columns(entries: Iterable[Entry]) -> list[Array]:
    """Returns the columns of samples, in the order of a batch's fields."""
    import numpy as np

    pairs = list(entries)
    keys = np.frombuffer(b"".join(key for key, _ in pairs), KEY_FIELDS)
    values = np.frombuffer(b"".join(value for _, value in pairs), VALUE_FIELDS)
    return [*(keys[name] for name, _ in KEY_FIELDS), *(values[name] for name, _ in VALUE_FIELDS)]
