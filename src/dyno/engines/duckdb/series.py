"""DuckDB through the port `series`: batches are passed as Arrow tables, whose numbers are not copied.

There is no index, as DuckDB's documentation advises for bulk loads: samples are nearly in the order of their times,
so the minimum and maximum of each row group suffice. A repeated sample replaces the old one by a deletion, which
reads only the row groups of the batch's times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dyno.contracts.cleanup import finally_, transaction
from dyno.engines.duckdb import DuckDB
from dyno.suites.series import samples, sql
from dyno.suites.series.port import FIELDS, SampleBatch
from dyno.suites.series.sql import SqlSeries

TYPES = sql.Types(name="VARCHAR", id="INTEGER", ts="BIGINT", val="DOUBLE", small="SMALLINT")
BATCH = "batch"
"""Name of the Arrow table in statements."""
INSERT = f"INSERT INTO {sql.TABLE} SELECT {', '.join(FIELDS)} FROM {BATCH}"
DELETE = (
    f"DELETE FROM {sql.TABLE} AS s USING {BATCH} AS b "
    "WHERE s.ts BETWEEN {first} AND {last} AND s.pv = b.pv AND s.ts = b.ts"
)


class Series(SqlSeries):
    begins, last = "ts // {bucket} * {bucket}", sql.LATEST_BY_GROUPS

    def __init__(self, engine: DuckDB, names: Sequence[str]) -> None:
        self._cursor = engine.db.cursor()
        self._execute = self._cursor.execute
        self._execute(sql.create_names(TYPES))
        self._execute(sql.create(TYPES, key=""))
        known = dict(self._execute(sql.NAMES).fetchall())
        if new := sql.missing_names(names, known):
            with transaction(self._execute):
                self._cursor.executemany(sql.add_name("?"), new)
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def insert(self, batch: SampleBatch) -> None:
        import pyarrow

        self._cursor.register(BATCH, pyarrow.table(self.stored(batch)._asdict()))
        with finally_(lambda: self._cursor.unregister(BATCH)), transaction(self._execute):
            # A statement ends only when its result is fetched.
            self._execute(DELETE.format(first=batch.ts.min(), last=batch.ts.max())).fetchall()
            self._execute(INSERT).fetchall()

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return list(self._execute(statement, values).fetchnumpy().values())

    def all(self) -> Iterator[SampleBatch]:
        for piece in self._cursor.sql(sql.ALL).to_arrow_reader(sql.ROWS):
            yield self.batch([column.to_numpy() for column in piece.columns])

    def close(self) -> None:
        self._cursor.close()
