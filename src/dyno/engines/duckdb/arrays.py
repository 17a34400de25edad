"""DuckDB through the port `arrays`: chunks are handed over as tables of Arrow's, of which numbers are not copied.

There is no index: rows come in the order of their numbers, so that DuckDB knows for each group of rows which there
are, and its makers advise against one where that is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.contracts.cleanup import finally_, transaction
from dyno.engines.duckdb.opener import DuckDB
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk

TYPES = {"id": "UBIGINT", "double": "DOUBLE", "flag": "TINYINT", "time": "TIMESTAMP_S", "text": "VARCHAR"}
CHUNK = "chunk"
"""What the statements call the table that is handed over."""


class Arrays:
    """See `dyno.suites.arrays.port.Arrays`."""

    def __init__(self, engine: DuckDB) -> None:
        self._cursor = engine.db.cursor()
        self._execute = self._cursor.execute
        self._execute(sql.create(TYPES, key=False))
        self._slice = sql.slice_of("?")

    def _handed(self, statement: str, chunk: Chunk) -> None:
        self._cursor.register(CHUNK, columns.table(chunk))
        with finally_(lambda: self._cursor.unregister(CHUNK)):
            # Until its count was fetched it is not over.
            self._execute(statement).fetchall()

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        insert = f"INSERT INTO {sql.TABLE} SELECT {', '.join(NAMES)} FROM {CHUNK}"
        with transaction(self._execute):
            yield lambda chunk: self._handed(insert, chunk)

    def _one(self, statement: str) -> Any:
        """The only row that it finds, fetched to its end: what is not is in the way of what comes next."""
        return self._execute(statement).fetchall()[0]

    def sum(self, column: str) -> Any:
        return self._one(f"SELECT SUM({column}) FROM {sql.TABLE}")[0]

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        wanted = ", ".join(f"AVG({name}), STDDEV_POP({name})" for name in names)
        found = self._one(f"SELECT {wanted} FROM {sql.TABLE}")
        return list(zip(found[::2], found[1::2], strict=True))

    def slice(self, rows: range) -> Chunk:
        return columns.of_table(self._cursor.sql(self._slice, params=list(sql.numbers(rows))).to_arrow_table())

    def frame(self, names: Sequence[str]) -> Any:
        return self._execute(sql.frame_of(names)).df()

    def update(self, change: Change) -> None:
        import numpy as np

        changed = ", ".join(f"{name} = {CHUNK}.{name}" for name in change.values)
        keys = np.arange(change.start + 1, change.stop + 1, dtype=columns.dtype(KEY))
        # Named with its bounds, too: by these DuckDB leaves out most groups of rows.
        statement = (
            f"UPDATE {sql.TABLE} SET {changed} FROM {CHUNK} WHERE {sql.TABLE}.{KEY} = {CHUNK}.{KEY} "
            f"AND {sql.TABLE}.{KEY} BETWEEN {keys[0]} AND {keys[-1]}"
        )
        self._handed(statement, {KEY: keys, **change.values})

    def close(self) -> None:
        self._cursor.close()
