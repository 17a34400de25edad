"""SQLite through the port `arrays`: a table clustered on the row's number; times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.engines.sqlite import SQLite
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import Change, Chunk

TYPES = {
    # An alias of the rowid, which the table is clustered on.
    "id": "INTEGER NOT NULL",
    "double": "REAL NOT NULL",
    "flag": "INTEGER NOT NULL",
    "time": "INTEGER NOT NULL",
    "text": "TEXT NOT NULL",
}


class Arrays(sql.SqlArrays):
    def __init__(self, engine: SQLite) -> None:
        self._connection = connection = engine.connect()
        self._execute = connection.execute
        # Only a column declared exactly as INTEGER PRIMARY KEY is an alias of the rowid.
        self._execute(sql.create(TYPES).replace("NOT NULL PRIMARY KEY", "PRIMARY KEY", 1))
        self._insert, self._slice = sql.insert("?"), sql.slice_of("?")

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], Any]]:
        many = partial(self._connection.executemany, self._insert)
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            yield lambda chunk: many(columns.tuples(chunk))

    def row(self, statement: str) -> Any:
        return self._execute(statement).fetchone()

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        """SQLite has no standard deviation: a second query averages squared differences from the means."""
        means = self.row(f"SELECT {', '.join(f'AVG({name})' for name in names)} FROM {sql.TABLE}")
        variances = ", ".join(f"AVG(({name} - ?{n}) * ({name} - ?{n}))" for n, name in enumerate(names, 1))
        squares = self._execute(f"SELECT {variances} FROM {sql.TABLE}", means).fetchone()
        return [(mean, square**0.5) for mean, square in zip(means, squares, strict=True)]

    def slice(self, rows: range) -> Chunk:
        return columns.of_rows(self._execute(self._slice, sql.numbers(rows)).fetchall())

    def frame(self, names: Sequence[str]) -> Any:
        import pandas

        return pandas.read_sql_query(sql.frame_of(names), self._connection)

    def update(self, change: Change) -> None:
        values = zip(*(array.tolist() for array in change.values.values()), sql.keys(change), strict=True)
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(sql.update(tuple(change.values), "?"), values)

    def close(self) -> None:
        self._connection.close()
