"""SQLite through the port `compute`: a table in memory, a column of it for each array."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from dyno.contracts.engine import Gap
from dyno.engines.compute.library import one_of
from dyno.engines.sqlite.opener import SQLite
from dyno.suites.compute.port import columns

NO_CORRELATION = Gap("corr", "unsupported", "SQLite has no aggregate for a correlation")
NO_SINE = Gap("sin", "unsupported", "this SQLite was built without its math functions")


def gaps() -> tuple[Gap, ...]:
    """Of the SQLite that Python has here."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("SELECT sin(1)")
        except sqlite3.OperationalError:
            return NO_CORRELATION, NO_SINE
    return (NO_CORRELATION,)


class Compute:
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: SQLite) -> None:
        self._connection = engine.connect()
        self._operations: dict[str, Callable[[Any], Any]] = {
            "avg": self._one("SELECT avg(x) FROM numbers"),
            "max": self._one("SELECT max(x) FROM numbers"),
            "sum": self._one("SELECT sum(x) FROM numbers"),
            "sum2d": self._sums,
        }
        if NO_SINE not in gaps():
            self._operations["sin"] = self._sines

    def _one(self, statement: str) -> Callable[[Any], Any]:
        execute = self._connection.execute
        return lambda _: execute(statement).fetchone()[0]

    def _sums(self, statement: str) -> Any:
        return self._connection.execute(statement).fetchone()

    def _sines(self, _: Any) -> Any:
        return self._connection.execute("SELECT sin(x) FROM numbers").fetchall()

    def load(self, arrays: Mapping[str, Any]) -> Any:
        """Returns the statement that sums all columns up."""
        made = columns(arrays)
        execute = self._connection.execute
        execute("DROP TABLE IF EXISTS numbers")
        execute(f"CREATE TABLE numbers (id INTEGER PRIMARY KEY, {', '.join(f'{name} REAL' for name in made)})")
        insert = f"INSERT INTO numbers ({', '.join(made)}) VALUES ({', '.join('?' * len(made))})"
        execute("BEGIN")
        # One number after the other: as lists they would take four times as much memory at once.
        self._connection.executemany(insert, zip(*(map(float, array) for array in made.values()), strict=True))
        execute("COMMIT")
        return f"SELECT {', '.join(f'sum({name})' for name in made)} FROM numbers"

    def operation(self, name: str) -> Callable[[Any], Any]:
        operation: Callable[[Any], Any] = one_of(name, self._operations, "this SQLite does not have it")
        return operation

    def threads(self) -> int | None:
        return 1

    def close(self) -> None:
        self._connection.close()
