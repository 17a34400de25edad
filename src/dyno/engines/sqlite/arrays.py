"""SQLite through the port `arrays`: a table clustered on the number of the row; times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.engines.sqlite.opener import SQLite
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import Change, Chunk

TYPES = {
    # An alias of the row's own number, by which the table is kept.
    "id": "INTEGER NOT NULL",
    "double": "REAL NOT NULL",
    "flag": "INTEGER NOT NULL",
    "time": "INTEGER NOT NULL",
    "text": "TEXT NOT NULL",
}


class Arrays:
    """See `dyno.suites.arrays.port.Arrays`."""

    def __init__(self, engine: SQLite) -> None:
        self._connection = connection = engine.connect()
        self._execute = connection.execute
        # SQLite has such an alias for INTEGER PRIMARY KEY only, spelt so.
        self._execute(sql.create(TYPES).replace("NOT NULL PRIMARY KEY", "PRIMARY KEY", 1))
        self._insert, self._slice = sql.insert("?"), sql.slice_of("?")

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], Any]]:
        many = partial(self._connection.executemany, self._insert)
        with transaction(self._execute, "BEGIN IMMEDIATE"):
            yield lambda chunk: many(columns.tuples(chunk))

    def sum(self, column: str) -> Any:
        return self._execute(f"SELECT SUM({column}) FROM {sql.TABLE}").fetchone()[0]

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        """SQLite has no deviation: squares are taken from the mean, which a first query tells."""
        means = self._execute(f"SELECT {', '.join(f'AVG({name})' for name in names)} FROM {sql.TABLE}").fetchone()
        off = ", ".join(f"AVG(({name} - ?{n}) * ({name} - ?{n}))" for n, name in enumerate(names, 1))
        squares = self._execute(f"SELECT {off} FROM {sql.TABLE}", means).fetchone()
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
