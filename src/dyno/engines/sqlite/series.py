"""SQLite through the port `series`: a table clustered on variable and time, and a table of names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dyno.engines.sqlite.opener import SQLite
from dyno.suites.records.sql import transaction
from dyno.suites.series import samples, sql
from dyno.suites.series.port import SampleBatch
from dyno.suites.series.table import Reading

TYPES = sql.Types(name="TEXT", id="INTEGER", ts="INTEGER", val="REAL", small="INTEGER")


class Series(Reading):
    """See `dyno.suites.series.port.Series`."""

    def __init__(self, engine: SQLite, names: Sequence[str]) -> None:
        self._connection = connection = engine.connect()
        self._execute = connection.execute
        self._execute(sql.create_names(TYPES))
        self._execute(sql.create(TYPES, "WITHOUT ROWID"))
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            known = dict(self._execute(sql.NAMES).fetchall())
            new = sql.missing(names, known)
            connection.executemany(sql.add_name("?"), new)
        self._insert = f"INSERT OR REPLACE INTO {sql.TABLE} VALUES (?, ?, ?, ?, ?)"
        super().__init__(samples.Numbers(names, [*known.items(), *new]))

    def insert(self, batch: SampleBatch) -> None:
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(self._insert, samples.tuples(self.stored(batch)))

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return samples.of_rows(self._execute(statement, values).fetchall(), count)

    def all(self) -> Iterator[SampleBatch]:
        cursor = self._execute(sql.ALL)
        while rows := cursor.fetchmany(sql.ROWS):
            yield self.batch(samples.of_rows(rows))

    def close(self) -> None:
        self._connection.close()
