"""Reading an archive by SQL: what engines share whose samples are in a table, as `sql` has it. No engine may be named
here, and nothing that writes may be put here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.suites.series import samples, sql
from dyno.suites.series.port import Buckets, SampleBatch, Samples
from dyno.suites.series.samples import Numbers


class Reading:
    """What reads of `dyno.suites.series.port.Series`. A class that inherits from it writes, and reads all."""

    mark, begins, last = "?", "ts / {bucket} * {bucket}", sql.LATEST_BY_SEEKS
    """How its statements mark a value, tell where a stretch of time begins (whole numbers are divided to such), and
    find the last sample of each variable."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self._seen, self._one, self._window = sql.seen(self.mark), sql.one(self.mark), sql.window(self.mark)

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        """What a statement gives, as so many columns."""
        raise NotImplementedError

    def settle(self) -> None:
        """What is committed can be read."""

    def seen(self, pv: int, ts: int) -> bool:
        return len(self.columns(self._seen, (self.numbers.one(pv), ts), 1)[0]) > 0

    def one(self, pv: int) -> Samples:
        return samples.samples(self.columns(self._one, (self.numbers.one(pv),), 4))

    def window(self, pv: int, start: int, end: int) -> Samples:
        return samples.samples(self.columns(self._window, (self.numbers.one(pv), start, end), 4))

    def latest(self) -> SampleBatch:
        return self.batch(self.columns(self.last, (), 5))

    def batch(self, columns: Sequence[Any]) -> SampleBatch:
        """Of columns as they are stored."""
        return samples.batch([self.numbers.from_store(columns[0]), *columns[1:]])

    def stored(self, given: SampleBatch) -> SampleBatch:
        """The other way."""
        return given._replace(pv=self.numbers.to_store(given.pv))

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        statement = sql.downsample(self.mark, bucket, self.begins)
        return samples.buckets(self.columns(statement, (self.numbers.one(pv), start, end), 4))
