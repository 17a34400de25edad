"""The port `series` on HBase: a row is a sample; its key is the variable's name and the time, the latest first.

Apache Software Foundation, Apache HBase Reference Guide, "RegionServer/Rowkey Design" ("Monotonically Increasing Row
Keys/Timeseries Data", "Reverse Timestamps").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any

from dyno.engines.hbase import Base
from dyno.suites.series import samples
from dyno.suites.series.port import Buckets, SampleBatch, Samples

PAGE = 10_000
"""Rows in one answer of a scan."""
FAMILY, COLUMN = "d", b"d:s"
LATEST = (1 << 63) - 1
"""A key has this minus the time, so that later samples come first."""
END = b"\0"
"""Ends the name in a key; names don't contain it."""
KEY, CELL = Struct(">q"), Struct(">dhh")
CELLS = [("val", ">f8"), ("stat", ">i2"), ("sevr", ">i2")]


class Series:
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: Base, names: Sequence[str]) -> None:
        self._engine = engine
        self._prefixes = [name.encode() + END for name in names]
        self._numbers = {prefix: number for number, prefix in enumerate(self._prefixes)}
        self._connection = engine.connect()
        if engine.name.encode() not in self._connection.tables():
            family = {"max_versions": 1, "compression": engine.options["compression"], "bloom_filter_type": "ROW"}
            self._connection.create_table(engine.name, {FAMILY: family})
        self._table = self._connection.table(engine.name)
        # Waits until the region is available, if the server has just been started.
        self._table.row(END)

    def insert(self, batch: SampleBatch) -> None:
        """Sends one request. A sample is one cell, because each cell is stored together with its key."""
        prefixes, key, cell = self._prefixes, KEY.pack, CELL.pack
        self._engine.unflushed += len(batch.ts)
        with self._table.batch() as mutations:
            for pv, ts, *rest in samples.rows_of(batch):
                mutations.put(prefixes[pv] + key(LATEST - ts), {COLUMN: cell(*rest)})

    def settle(self) -> None:
        """Writes what is in memory into files."""
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
        """Returns the first row of each variable."""
        rows = [row for prefix in self._prefixes for row in self._table.scan(row_prefix=prefix, limit=1)]
        return self._batch(rows)

    def _batch(self, rows: Sequence[Any]) -> SampleBatch:
        return samples.batch([[self._numbers[key[: -KEY.size]] for key, _ in rows], *_columns(rows)])

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        """Computed by the client: HBase has no such query."""
        return samples.downsample(self.window(pv, start, end), bucket)

    def close(self) -> None:
        self._connection.close()


def _columns(rows: Sequence[Any]) -> list[Any]:
    """Returns times, values, statuses and severities, in the order of the rows."""
    import numpy as np

    times = np.frombuffer(b"".join([key[-KEY.size :] for key, _ in rows]), ">i8")
    cells = np.frombuffer(b"".join([cells[COLUMN] for _, cells in rows]), CELLS)
    return [LATEST - times.astype("i8"), *(cells[name] for name, _ in CELLS)]
