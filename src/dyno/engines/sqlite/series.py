"""SQLite through the port `series`: a table clustered on variable and time, and a table of names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.engines.sqlite import SQLite
from dyno.suites.series import samples, sql
from dyno.suites.series.port import SampleBatch
from dyno.suites.series.sql import SqlSeries

TYPES = sql.Types(name="TEXT", id="INTEGER", ts="INTEGER", val="REAL", small="INTEGER")


class Series(SqlSeries):
    def __init__(self, engine: SQLite, names: Sequence[str]) -> None:
        self._connection = connection = engine.connect()
        self._execute = connection.execute
        self._execute(sql.create_names(TYPES))
        self._execute(sql.create(TYPES, "WITHOUT ROWID"))
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            known = dict(self._execute(sql.NAMES).fetchall())
            new = sql.missing_names(names, known)
            connection.executemany(sql.add_name("?"), new)
        self._insert = f"INSERT OR REPLACE INTO {sql.TABLE} VALUES (?, ?, ?, ?, ?)"
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def insert(self, batch: SampleBatch) -> None:
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(self._insert, samples.rows_of(self.stored(batch)))

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return samples.columns_of(self._execute(statement, values).fetchall(), count)

    def all(self) -> Iterator[SampleBatch]:
        cursor = self._execute(sql.ALL)
        while rows := cursor.fetchmany(sql.ROWS):
            yield self.batch(samples.columns_of(rows))

    def close(self) -> None:
        self._connection.close()
