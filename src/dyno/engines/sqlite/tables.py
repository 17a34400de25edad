"""SQLite through the ports `arrays` and `series`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.engines.sqlite import SQLite
from dyno.suites.arrays import columns as array_columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import Change, Chunk
from dyno.suites.series import samples
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import SampleBatch

ARRAY_TYPES = {
    # The column is an alias of the rowid, by which the table is clustered.
    "id": "INTEGER NOT NULL",
    "double": "REAL NOT NULL",
    "flag": "INTEGER NOT NULL",
    "time": "INTEGER NOT NULL",
    "text": "TEXT NOT NULL",
}


class Arrays(array_sql.SqlArrays):
    """The port `arrays` on a table that is clustered on the row number. Times are seconds since 1970."""

    def __init__(self, engine: SQLite) -> None:
        self._connection = connection = engine.connect()
        self._execute = connection.execute
        # Only a column declared exactly as INTEGER PRIMARY KEY is an alias of the rowid.
        self._execute(array_sql.create(ARRAY_TYPES).replace("NOT NULL PRIMARY KEY", "PRIMARY KEY", 1))
        self._insert, self._slice = array_sql.insert("?"), array_sql.slice_of("?")

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], Any]]:
        many = partial(self._connection.executemany, self._insert)
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            yield lambda chunk: many(array_columns.tuples(chunk))

    def row(self, statement: str) -> Any:
        return self._execute(statement).fetchone()

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        """Returns mean and standard deviation of each column. SQLite has no standard deviation, so a second query
        averages squared differences from the means."""
        means = self.row(f"SELECT {', '.join(f'AVG({name})' for name in names)} FROM {array_sql.TABLE}")
        variances = ", ".join(f"AVG(({name} - ?{n}) * ({name} - ?{n}))" for n, name in enumerate(names, 1))
        squares = self._execute(f"SELECT {variances} FROM {array_sql.TABLE}", means).fetchone()
        return [(mean, square**0.5) for mean, square in zip(means, squares, strict=True)]

    def slice(self, rows: range) -> Chunk:
        return array_columns.of_rows(self._execute(self._slice, array_sql.numbers(rows)).fetchall())

    def frame(self, names: Sequence[str]) -> Any:
        import pandas

        return pandas.read_sql_query(array_sql.frame_of(names), self._connection)

    def update(self, change: Change) -> None:
        values = zip(*(array.tolist() for array in change.values.values()), array_sql.keys(change), strict=True)
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(array_sql.update(tuple(change.values), "?"), values)

    def close(self) -> None:
        self._connection.close()


SERIES_TYPES = series_sql.Types(name="TEXT", id="INTEGER", ts="INTEGER", val="REAL", small="INTEGER")


class Series(series_sql.SqlSeries):
    """The port `series` on a table that is clustered on variable and time, and a table of names."""

    def __init__(self, engine: SQLite, names: Sequence[str]) -> None:
        self._connection = connection = engine.connect()
        self._execute = connection.execute
        self._execute(series_sql.create_names(SERIES_TYPES))
        self._execute(series_sql.create(SERIES_TYPES, "WITHOUT ROWID"))
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            known = dict(self._execute(series_sql.NAMES).fetchall())
            new = series_sql.missing_names(names, known)
            connection.executemany(series_sql.add_name("?"), new)
        self._insert = f"INSERT OR REPLACE INTO {series_sql.TABLE} VALUES (?, ?, ?, ?, ?)"
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def insert(self, batch: SampleBatch) -> None:
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(self._insert, samples.rows_of(self.stored(batch)))

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return samples.columns_of(self._execute(statement, values).fetchall(), count)

    def all(self) -> Iterator[SampleBatch]:
        cursor = self._execute(series_sql.ALL)
        while rows := cursor.fetchmany(series_sql.ROWS):
            yield self.batch(samples.columns_of(rows))

    def close(self) -> None:
        self._connection.close()
