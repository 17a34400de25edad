"""DuckDB through the port `series`: batches are handed over as tables of Arrow's, of which numbers are not copied.

There is no index: samples come nearly in the order of their times, so that DuckDB knows for each group of rows which
times there are, and its makers advise against one for what is loaded in bulk. A sample that comes again takes the
place of its former self by a deletion, which looks at the groups of the batch's times only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dyno.contracts.cleanup import finally_, transaction
from dyno.engines.duckdb.opener import DuckDB
from dyno.suites.series import samples, sql
from dyno.suites.series.port import FIELDS, SampleBatch
from dyno.suites.series.sql import SqlSeries

TYPES = sql.Types(name="VARCHAR", id="INTEGER", ts="BIGINT", val="DOUBLE", small="SMALLINT")
BATCH = "batch"
"""What the statements call the table that is handed over."""
INSERT = f"INSERT INTO {sql.TABLE} SELECT {', '.join(FIELDS)} FROM {BATCH}"
DELETE = (
    f"DELETE FROM {sql.TABLE} AS s USING {BATCH} AS b "
    "WHERE s.ts BETWEEN {first} AND {last} AND s.pv = b.pv AND s.ts = b.ts"
)


class Series(SqlSeries):
    """See `dyno.suites.series.port.Series`."""

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
            # Until its count was fetched it is not over.
            self._execute(DELETE.format(first=batch.ts.min(), last=batch.ts.max())).fetchall()
            self._execute(INSERT).fetchall()

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return list(self._execute(statement, values).fetchnumpy().values())

    def all(self) -> Iterator[SampleBatch]:
        for piece in self._cursor.sql(sql.ALL).to_arrow_reader(sql.ROWS):
            yield self.batch([column.to_numpy() for column in piece.columns])

    def close(self) -> None:
        self._cursor.close()
