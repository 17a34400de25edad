"""SQLite through the ports `records`, `arrays` and `series`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from dyno.contracts.cleanup import transaction
from dyno.engines.sqlite import SQLite
from dyno.suites.arrays import columns as array_columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import Change, Chunk
from dyno.suites.records.port import INDEXES, Key, Reader, Record
from dyno.suites.records.sql import SqlReader, Statements
from dyno.suites.series import samples
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import SampleBatch

if TYPE_CHECKING:
    import pandas

STATEMENTS = Statements()


class Records:
    """A table clustered on the key. The indexed values are columns, since SQLite can't reverse a string."""

    def __init__(self, engine: SQLite, indexed: bool) -> None:
        self._connection = connection = engine.connect()
        self._indexed = indexed
        self._reader = SqlReader(connection.execute, STATEMENTS)
        names = ["name", "location", "stub", *(INDEXES if indexed else ())]
        self._insert = f"INSERT INTO records ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        values = ", ".join(f"{name} = excluded.{name}" for name in names[2:])
        self._upsert = f"{self._insert} ON CONFLICT (name, location) DO UPDATE SET {values}"
        columns = ""
        if indexed:
            columns = "".join(f", {name} TEXT NOT NULL" for name in INDEXES)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS records (name TEXT NOT NULL, location TEXT NOT NULL, stub TEXT NOT NULL"
            f"{columns}, PRIMARY KEY (name, location)) WITHOUT ROWID"
        )
        for name in INDEXES if indexed else ():
            connection.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({name})")

    def _row(self, record: Record) -> tuple[str, ...]:
        name, location = record["name"], record["location"]
        if self._indexed:
            return name, location, record["stub"], name[::-1], location[::-1]
        return name, location, record["stub"]

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with transaction(self._connection.execute):
            yield self._reader

    def reader(self) -> Reader:
        return self._reader

    def insert(self, records: Iterable[Record]) -> None:
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(self._insert, map(self._row, records))

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        olds = []
        get = self._reader.get
        execute = self._connection.execute
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            for record in records:
                olds.append(get((record["name"], record["location"])))
                execute(self._upsert, self._row(record))
        return olds

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            return [self._connection.execute(STATEMENTS.delete, key).rowcount == 1 for key in keys]

    def close(self) -> None:
        self._connection.close()


ARRAY_TYPES = {
    # The column is an alias of the rowid, by which the table is clustered.
    "id": "INTEGER NOT NULL",
    "double": "REAL NOT NULL",
    "flag": "INTEGER NOT NULL",
    "time": "INTEGER NOT NULL",
    "text": "TEXT NOT NULL",
}


class Arrays(array_sql.CursorArrays):
    """The port `arrays` on a table that is clustered on the row number. Times are seconds since 1970."""

    mark = "?"

    def __init__(self, engine: SQLite) -> None:
        connection = engine.connect()
        super().__init__(connection, connection.execute)
        # Only a column declared exactly as INTEGER PRIMARY KEY is an alias of the rowid.
        self._execute(array_sql.create(ARRAY_TYPES).replace("NOT NULL PRIMARY KEY", "PRIMARY KEY", 1))
        self._insert = array_sql.insert("?")

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], object]]:
        many = partial(self._connection.executemany, self._insert)
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            yield lambda chunk: many(array_columns.tuples(chunk))

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        """Returns mean and standard deviation of each column. SQLite has no standard deviation, so a second query
        averages squared differences from the means."""
        means = self.row(f"SELECT {', '.join(f'AVG({name})' for name in names)} FROM {array_sql.TABLE}")
        variances = ", ".join(f"AVG(({name} - ?{n}) * ({name} - ?{n}))" for n, name in enumerate(names, 1))
        squares = self._execute(f"SELECT {variances} FROM {array_sql.TABLE}", means).fetchone()
        return [(mean, square**0.5) for mean, square in zip(means, squares, strict=True)]

    def frame(self, names: Sequence[str]) -> pandas.DataFrame:
        import pandas

        return pandas.read_sql_query(array_sql.frame_of(names), self._connection)

    def update(self, change: Change) -> None:
        values = zip(*(array.tolist() for array in change.values.values()), array_sql.keys(change), strict=True)
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(array_sql.update(tuple(change.values), "?"), values)


SERIES_TYPES = series_sql.Types(name="TEXT", id="INTEGER", ts="INTEGER", val="REAL", small="INTEGER")


class Series(series_sql.SqlSeries):
    """The port `series` on a table that is clustered on variable and time, and a table of names."""

    def __init__(self, engine: SQLite, names: Sequence[str]) -> None:
        self._connection = connection = engine.connect()
        self._execute = connection.execute
        self._execute(series_sql.create_names(SERIES_TYPES))
        self._execute(series_sql.create(SERIES_TYPES, "WITHOUT ROWID"))
        self._insert = f"INSERT OR REPLACE INTO {series_sql.TABLE} VALUES (?, ?, ?, ?, ?)"
        super().__init__(self.add_names(names, "BEGIN IMMEDIATE"))

    def insert(self, batch: SampleBatch) -> None:
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(self._insert, samples.iterate_rows(self.with_store_ids(batch)))
