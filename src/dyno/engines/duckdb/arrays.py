"""DuckDB through the port `arrays`: chunks are passed as Arrow tables, whose numbers are not copied.

There is no index, as DuckDB's documentation advises: rows are in the order of their numbers, so the minimum and
maximum of each row group suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.contracts.cleanup import finally_, transaction
from dyno.engines.duckdb import DuckDB
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk

TYPES = {"id": "UBIGINT", "double": "DOUBLE", "flag": "TINYINT", "time": "TIMESTAMP_S", "text": "VARCHAR"}
CHUNK = "chunk"
"""Name of the Arrow table in statements."""


class Arrays(sql.SqlArrays):
    def __init__(self, engine: DuckDB) -> None:
        self._cursor = engine.db.cursor()
        self._execute = self._cursor.execute
        self._execute(sql.create(TYPES, key=False))
        self._slice = sql.slice_of("?")

    def _execute_with(self, statement: str, chunk: Chunk) -> None:
        self._cursor.register(CHUNK, columns.table(chunk))
        with finally_(lambda: self._cursor.unregister(CHUNK)):
            # A statement ends only when its result is fetched.
            self._execute(statement).fetchall()

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        insert = f"INSERT INTO {sql.TABLE} SELECT {', '.join(NAMES)} FROM {CHUNK}"
        with transaction(self._execute):
            yield lambda chunk: self._execute_with(insert, chunk)

    def row(self, statement: str) -> Any:
        # An unfetched result would block the next statement.
        return self._execute(statement).fetchall()[0]

    def slice(self, rows: range) -> Chunk:
        return columns.of_table(self._cursor.sql(self._slice, params=list(sql.numbers(rows))).to_arrow_table())

    def frame(self, names: Sequence[str]) -> Any:
        return self._execute(sql.frame_of(names)).df()

    def update(self, change: Change) -> None:
        import numpy as np

        values = ", ".join(f"{name} = {CHUNK}.{name}" for name in change.values)
        keys = np.arange(change.start + 1, change.stop + 1, dtype=columns.dtype(KEY))
        # With the bounds DuckDB skips most row groups.
        statement = (
            f"UPDATE {sql.TABLE} SET {values} FROM {CHUNK} WHERE {sql.TABLE}.{KEY} = {CHUNK}.{KEY} "
            f"AND {sql.TABLE}.{KEY} BETWEEN {keys[0]} AND {keys[-1]}"
        )
        self._execute_with(statement, {KEY: keys, **change.values})

    def close(self) -> None:
        self._cursor.close()
