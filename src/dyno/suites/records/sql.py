"""What SQL engines share: the table's reading statements, and a transaction by BEGIN and COMMIT.

For clients whose `execute(statement, values)` returns something with `fetchone` and `fetchall`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dyno.suites.records.port import Key, Record

FIELDS = "name, location, stub"
GET = f"SELECT {FIELDS} FROM records WHERE name = ? AND location = ?"
SCAN = f"SELECT {FIELDS} FROM records WHERE (name, location) >= (?, ?) ORDER BY name, location LIMIT ?"
DELETE = "DELETE FROM records WHERE name = ? AND location = ?"


def record(row: tuple[str, str, str]) -> Record:
    """A row of FIELDS as the application sees it."""
    return {"name": row[0], "location": row[1], "stub": row[2]}


class SqlReader:
    """Reads on one connection, in whatever transaction it is in."""

    def __init__(self, execute: Callable[..., Any], scan: str = SCAN) -> None:
        self._execute, self._scan = execute, scan

    def get(self, key: Key) -> Record | None:
        row = self._execute(GET, key).fetchone()
        return None if row is None else record(row)

    def finder(self, index: str) -> Callable[[str], Record | None]:
        execute, statement = self._execute, f"SELECT {FIELDS} FROM records WHERE {index} = ?"

        def find(value: str) -> Record | None:
            row = execute(statement, (value,)).fetchone()
            return None if row is None else record(row)

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        execute, statement = self._execute, self._scan

        def scan(key: Key) -> list[Record]:
            return [record(row) for row in execute(statement, (*key, count)).fetchall()]

        return scan


@contextmanager
def transaction(execute: Callable[..., Any], begin: str = "BEGIN") -> Iterator[None]:
    """Committed at the end of the block, rolled back if it raises."""
    execute(begin)
    try:
        yield
    except BaseException:
        execute("ROLLBACK")
        raise
    execute("COMMIT")
