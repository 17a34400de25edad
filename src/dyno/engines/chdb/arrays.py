"""chDB through the port `arrays`: a table of its MergeTree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.engines.chdb.opener import ChDB
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import BY_NAME, KEY, NAMES, Change, Chunk

TYPES = {"id": "UInt64", "double": "Float64", "flag": "Int8", "time": "DateTime('UTC')", "text": "String"}


class Arrays:
    """See `dyno.suites.arrays.port.Arrays`."""

    def __init__(self, engine: ChDB) -> None:
        self._ask = engine.ask
        self._ask(sql.create(TYPES, f" ENGINE = MergeTree ORDER BY {KEY} SETTINGS {engine.durable}", key=False))
        self._insert = f"INSERT INTO {sql.TABLE} SELECT {', '.join(NAMES)} FROM Python(chunk)"

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        yield self._write

    def _write(self, given: Chunk) -> None:
        # It looks for the name that the statement has among the variables here.
        chunk = columns.table(given)  # noqa: F841
        self._ask(self._insert)

    def _table(self, statement: str) -> Any:
        return self._ask(statement, "ArrowTable")

    def sum(self, column: str) -> int | float:
        found = self._table(f"SELECT sum({column}) FROM {sql.TABLE}").column(0)[0].as_py()
        return int(found) if BY_NAME[column].exact else float(found)

    def stats(self, names: Sequence[str]) -> list[tuple[float, float]]:
        # The stable one: the other subtracts what is nearly the same.
        wanted = ", ".join(f"avg({name}) AS m{n}, stddevPopStable({name}) AS d{n}" for n, name in enumerate(names))
        found = [column[0].as_py() for column in self._table(f"SELECT {wanted} FROM {sql.TABLE}").columns]
        return list(zip(found[::2], found[1::2], strict=True))

    def slice(self, rows: range) -> Chunk:
        first, last = sql.numbers(rows)
        return columns.of_table(self._table(sql.slice_of("{}").format(first, last)))

    def frame(self, names: Sequence[str]) -> Any:
        return self._ask(sql.frame_of(names), "DataFrame")

    def update(self, change: Change) -> None:
        """By a mutation, which writes the columns of the part anew: rows that follow each other have their values in
        a list."""
        changed = ", ".join(
            f"{name} = arrayElement({values.tolist()}, {KEY} - {change.start})"
            for name, values in change.values.items()
        )
        self._ask(
            f"ALTER TABLE {sql.TABLE} UPDATE {changed} WHERE {KEY} BETWEEN {change.start + 1} AND {change.stop}"
        )

    def close(self) -> None:
        pass
