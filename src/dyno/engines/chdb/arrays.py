"""chDB through the port `arrays`: a MergeTree table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.engines.chdb import ChDB
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk

TYPES = {"id": "UInt64", "double": "Float64", "flag": "Int8", "time": "DateTime('UTC')", "text": "String"}


class Arrays(sql.SqlArrays):
    mean = "avg({})"
    # stddevPop subtracts nearly equal numbers.
    deviation = "stddevPopStable({})"

    def __init__(self, engine: ChDB) -> None:
        self._query = engine.query
        self._query(sql.create(TYPES, f" ENGINE = MergeTree ORDER BY {KEY} SETTINGS {engine.durable}", key=False))
        self._insert = f"INSERT INTO {sql.TABLE} SELECT {', '.join(NAMES)} FROM Python(chunk)"

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        yield self._write

    def _write(self, rows: Chunk) -> None:
        # chDB finds the local variable by the name in the statement.
        chunk = columns.table(rows)  # noqa: F841
        self._query(self._insert)

    def row(self, statement: str) -> Any:
        return [column[0].as_py() for column in self._query(statement, "ArrowTable").columns]

    def slice(self, rows: range) -> Chunk:
        first, last = sql.numbers(rows)
        return columns.of_table(self._query(sql.slice_of("{}").format(first, last), "ArrowTable"))

    def frame(self, names: Sequence[str]) -> Any:
        return self._query(sql.frame_of(names), "DataFrame")

    def update(self, change: Change) -> None:
        """A mutation, which rewrites whole columns of a part. The values of consecutive rows are array literals."""
        values = ", ".join(
            f"{name} = arrayElement({array.tolist()}, {KEY} - {change.start})"
            for name, array in change.values.items()
        )
        self._query(
            f"ALTER TABLE {sql.TABLE} UPDATE {values} WHERE {KEY} BETWEEN {change.start + 1} AND {change.stop}"
        )
