"""The port `series` on an ordered key-value store: a record for each sample, and one for each name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from dyno.suites.series import sample_keys, samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples, Series
from dyno.suites.series.sample_keys import Entry


class KeyedSeries(Series):
    """Engines subclass it with `put`, `get`, `scan` and `last`."""

    def __init__(self, names: Sequence[str]) -> None:
        with self.scan(sample_keys.NAME) as entries:
            known = sample_keys.parse_names(entries)
        new, every = sample_keys.add_names(names, known)
        self.put(new)
        self._numbers = samples.VariableIds(names, every)
        self._end = max((number for number, _ in every), default=-1) + 1

    def put(self, entries: Iterable[Entry]) -> None:
        """Writes entries in one transaction."""
        raise NotImplementedError

    def get(self, key: bytes) -> bytes | None:
        raise NotImplementedError

    def scan(self, first: bytes, end: bytes | None = None) -> AbstractContextManager[Iterator[Entry]]:
        """Entries from `first` on, in order, up to but not including `end`."""
        raise NotImplementedError

    def last(self, numbers: range) -> Iterable[Entry | None]:
        """The last sample of each variable, by its number in the store."""
        raise NotImplementedError

    def insert(self, batch: SampleBatch) -> None:
        self.put(sample_keys.entries(batch._replace(pv=self._numbers.to_store(batch.pv))))

    def seen(self, pv: int, ts: int) -> bool:
        return self.get(sample_keys.KEY.pack(self._numbers.one(pv), ts)) is not None

    def one(self, pv: int) -> Samples:
        return self.window(pv, 0, sample_keys.MAX_TIME)

    def window(self, pv: int, start: int, end: int) -> Samples:
        pack, number = sample_keys.KEY.pack, self._numbers.one(pv)
        with self.scan(pack(number, start), pack(number, end)) as entries:
            return sample_keys.samples_of(entries)

    def all(self) -> Iterator[SampleBatch]:
        with self.scan(b"\0", sample_keys.KEY.pack(self._end, 0)) as entries:
            yield from sample_keys.batches(entries, self._numbers)

    def latest(self) -> SampleBatch:
        return sample_keys.batch(filter(None, self.last(range(self._end))), self._numbers)

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        return samples.downsample(self.window(pv, start, end), bucket)
