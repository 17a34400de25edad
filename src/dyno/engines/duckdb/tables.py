"""DuckDB through the ports `arrays` and `series`: rows are passed as Arrow tables, whose numbers are not copied.

There is no index, as DuckDB's documentation advises for bulk loads: rows are nearly in the order of their numbers or
times, so the minimum and maximum of each row group suffice.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.contracts.cleanup import finally_, transaction
from dyno.engines.duckdb import DuckDB
from dyno.suites.arrays import columns as array_columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk
from dyno.suites.series import samples
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import FIELDS, SampleBatch

ARRAY_TYPES = {"id": "UBIGINT", "double": "DOUBLE", "flag": "TINYINT", "time": "TIMESTAMP_S", "text": "VARCHAR"}
CHUNK = "chunk"
"""Name of the Arrow table in statements."""


class Arrays(array_sql.SqlArrays):
    def __init__(self, engine: DuckDB) -> None:
        self._cursor = engine.db.cursor()
        self._execute = self._cursor.execute
        self._execute(array_sql.create(ARRAY_TYPES, key=False))
        self._slice = array_sql.slice_of("?")

    def _execute_with(self, statement: str, chunk: Chunk) -> None:
        self._cursor.register(CHUNK, array_columns.table(chunk))
        with finally_(lambda: self._cursor.unregister(CHUNK)):
            # A statement ends only when its result is fetched.
            self._execute(statement).fetchall()

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        insert = f"INSERT INTO {array_sql.TABLE} SELECT {', '.join(NAMES)} FROM {CHUNK}"
        with transaction(self._execute):
            yield lambda chunk: self._execute_with(insert, chunk)

    def row(self, statement: str) -> Any:
        # An unfetched result would block the next statement.
        return self._execute(statement).fetchall()[0]

    def slice(self, rows: range) -> Chunk:
        return array_columns.of_table(
            self._cursor.sql(self._slice, params=list(array_sql.numbers(rows))).to_arrow_table()
        )

    def frame(self, names: Sequence[str]) -> Any:
        return self._execute(array_sql.frame_of(names)).df()

    def update(self, change: Change) -> None:
        import numpy as np

        values = ", ".join(f"{name} = {CHUNK}.{name}" for name in change.values)
        keys = np.arange(change.start + 1, change.stop + 1, dtype=array_columns.dtype(KEY))
        # With the bounds DuckDB skips most row groups.
        statement = (
            f"UPDATE {array_sql.TABLE} SET {values} FROM {CHUNK} WHERE {array_sql.TABLE}.{KEY} = {CHUNK}.{KEY} "
            f"AND {array_sql.TABLE}.{KEY} BETWEEN {keys[0]} AND {keys[-1]}"
        )
        self._execute_with(statement, {KEY: keys, **change.values})

    def close(self) -> None:
        self._cursor.close()


SERIES_TYPES = series_sql.Types(name="VARCHAR", id="INTEGER", ts="BIGINT", val="DOUBLE", small="SMALLINT")
ROWS = "batch"
"""Name of the Arrow table in statements."""
INSERT_ROWS = f"INSERT INTO {series_sql.TABLE} SELECT {', '.join(FIELDS)} FROM {ROWS}"
DELETE_REPEATED = (
    f"DELETE FROM {series_sql.TABLE} AS s USING {ROWS} AS b "
    "WHERE s.ts BETWEEN {first} AND {last} AND s.pv = b.pv AND s.ts = b.ts"
)


class Series(series_sql.SqlSeries):
    """The port `series`. An insertion first deletes older versions of the same samples, which reads only the row
    groups of the batch's times."""

    begins, last = "ts // {bucket} * {bucket}", series_sql.LATEST_BY_GROUPS

    def __init__(self, engine: DuckDB, names: Sequence[str]) -> None:
        self._cursor = engine.db.cursor()
        self._execute = self._cursor.execute
        self._execute(series_sql.create_names(SERIES_TYPES))
        self._execute(series_sql.create(SERIES_TYPES, key=""))
        known = dict(self._execute(series_sql.NAMES).fetchall())
        if new := series_sql.missing_names(names, known):
            with transaction(self._execute):
                self._cursor.executemany(series_sql.add_name("?"), new)
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def insert(self, batch: SampleBatch) -> None:
        import pyarrow

        self._cursor.register(ROWS, pyarrow.table(self.stored(batch)._asdict()))
        with finally_(lambda: self._cursor.unregister(ROWS)), transaction(self._execute):
            # A statement ends only when its result is fetched.
            self._execute(DELETE_REPEATED.format(first=batch.ts.min(), last=batch.ts.max())).fetchall()
            self._execute(INSERT_ROWS).fetchall()

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return list(self._execute(statement, values).fetchnumpy().values())

    def all(self) -> Iterator[SampleBatch]:
        for piece in self._cursor.sql(series_sql.ALL).to_arrow_reader(series_sql.ROWS):
            yield self.batch([column.to_numpy() for column in piece.columns])

    def close(self) -> None:
        self._cursor.close()
