"""The port `series` on HBase. A row is a sample. Its key is made of the variable's name and the reversed time, so
that the latest sample comes first.

Source: Apache Software Foundation, Apache HBase Reference Guide, "RegionServer/Rowkey Design" ("Monotonically
Increasing Row Keys/Timeseries Data", "Reverse Timestamps").
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any

from dyno.engines.hbase import Base
from dyno.suites.series import port, samples
from dyno.suites.series.port import SampleBatch, Samples

PAGE = 10_000
"""Rows in one answer of a scan."""
FAMILY, COLUMN = "d", b"d:s"
LATEST = (1 << 63) - 1
"""Latest time. A key contains the difference between it and the sample's time, so that later samples come first."""
END = b"\0"
"""Ends the name in a key. Names don't contain this byte."""
KEY, CELL = Struct(">q"), Struct(">dhh")
CELLS = [("val", ">f8"), ("stat", ">i2"), ("sevr", ">i2")]


class Series(port.Series):
    """The port `series`. Buckets are computed in the client, because HBase has no such query."""

    def __init__(self, engine: Base, names: Sequence[str]) -> None:
        self._engine = engine
        self._prefixes = [name.encode() + END for name in names]
        self._numbers = {prefix: number for number, prefix in enumerate(self._prefixes)}
        self._connection = engine.connect()
        if engine.name.encode() not in self._connection.tables():
            family = {"max_versions": 1, "compression": engine.options["compression"], "bloom_filter_type": "ROW"}
            self._connection.create_table(engine.name, {FAMILY: family})
        self._table = self._connection.table(engine.name)
        # After the server's start, a read waits until the region is available.
        self._table.row(END)

    def insert(self, batch: SampleBatch) -> None:
        """Sends the batch in one request. A sample is one cell, because HBase stores each cell together with its
        key."""
        prefixes, key, cell = self._prefixes, KEY.pack, CELL.pack
        self._engine.unflushed += len(batch.ts)
        with self._table.batch() as mutations:
            for pv, ts, *rest in samples.rows_of(batch):
                mutations.put(prefixes[pv] + key(LATEST - ts), {COLUMN: cell(*rest)})

    def settle(self) -> None:
        """Writes samples from memory into files."""
        self._engine.flush()

    def seen(self, pv: int, ts: int) -> bool:
        return bool(self._table.row(self._key(pv, ts)))

    def _key(self, pv: int, ts: int) -> bytes:
        return self._prefixes[pv] + KEY.pack(LATEST - ts)

    def one(self, pv: int) -> Samples:
        return self._read(row_prefix=self._prefixes[pv])

    def window(self, pv: int, start: int, end: int) -> Samples:
        return self._read(row_start=self._key(pv, end - 1), row_stop=self._key(pv, start - 1))

    def _read(self, **rows: bytes) -> Samples:
        columns = _columns(list(self._table.scan(batch_size=PAGE, **rows)))
        return samples.samples([values[::-1] for values in columns])

    def all(self) -> Iterator[SampleBatch]:
        """Yields all samples in the order of the keys."""
        page: list[Any] = []
        for row in self._table.scan(batch_size=PAGE):
            page.append(row)
            if len(page) == PAGE:
                yield self._batch(page)
                page = []
        if page:
            yield self._batch(page)

    def latest(self) -> SampleBatch:
        """Returns the first row of each variable, which is its latest sample."""
        rows = [row for prefix in self._prefixes for row in self._table.scan(row_prefix=prefix, limit=1)]
        return self._batch(rows)

    def _batch(self, rows: Sequence[Any]) -> SampleBatch:
        return samples.batch([[self._numbers[key[: -KEY.size]] for key, _ in rows], *_columns(rows)])

    def close(self) -> None:
        self._connection.close()


def _columns(rows: Sequence[Any]) -> list[Any]:
    """Returns times, values, statuses and severities, in the order of the rows."""
    import numpy as np

    times = np.frombuffer(b"".join([key[-KEY.size :] for key, _ in rows]), ">i8")
    cells = np.frombuffer(b"".join([cells[COLUMN] for _, cells in rows]), CELLS)
    return [LATEST - times.astype("i8"), *(cells[name] for name, _ in CELLS)]
