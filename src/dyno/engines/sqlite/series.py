"""SQLite through the port `series`: a table clustered on variable and time, and a table of names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dyno.engines.sqlite.opener import SQLite
from dyno.suites.records.sql import transaction
from dyno.suites.series import samples, sql
from dyno.suites.series.port import Batch, Buckets, Samples

TYPES = sql.Types(name="TEXT", id="INTEGER", ts="INTEGER", val="REAL", small="INTEGER")


class Series:
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: SQLite, names: Sequence[str]) -> None:
        self._connection = connection = engine.connect()
        self._execute = connection.execute
        self._execute(sql.create_names(TYPES))
        self._execute(sql.create(TYPES, "WITHOUT ROWID"))
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            known = dict(self._execute(sql.NAMES).fetchall())
            new = sql.missing(names, known)
            connection.executemany(sql.ADD_NAME.format("?", "?"), new)
        self._numbers = samples.Numbers(names, [*known.items(), *new])
        self._insert = f"INSERT OR REPLACE INTO {sql.TABLE} VALUES (?, ?, ?, ?, ?)"

    def insert(self, batch: Batch) -> None:
        stored = batch._replace(pv=self._numbers.to_store(batch.pv))
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(self._insert, samples.tuples(stored))

    def settle(self) -> None:
        pass

    def seen(self, pv: int, ts: int) -> bool:
        return self._execute(sql.seen("?"), (self._numbers.one(pv), ts)).fetchone() is not None

    def one(self, pv: int) -> Samples:
        rows = self._execute(sql.one("?"), (self._numbers.one(pv),)).fetchall()
        return samples.samples(samples.of_rows(rows, 4))

    def window(self, pv: int, start: int, end: int) -> Samples:
        rows = self._execute(sql.window("?"), (self._numbers.one(pv), start, end)).fetchall()
        return samples.samples(samples.of_rows(rows, 4))

    def all(self) -> Iterator[Batch]:
        cursor = self._execute(sql.ALL)
        while rows := cursor.fetchmany(sql.ROWS):
            yield self._batch(rows)

    def _batch(self, rows: Sequence[Sequence[float]]) -> Batch:
        pv, *rest = samples.of_rows(rows)
        return samples.batch([self._numbers.from_store(pv), *rest])

    def latest(self) -> Batch:
        return self._batch(self._execute(sql.LATEST_BY_SEEKS).fetchall())

    def downsample(self, pv: int, start: int, end: int, bucket: int) -> Buckets:
        rows = self._execute(sql.downsample("?", bucket), (self._numbers.one(pv), start, end)).fetchall()
        return samples.buckets(samples.of_rows(rows, 4))

    def close(self) -> None:
        self._connection.close()
