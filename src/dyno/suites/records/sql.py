"""Reading statements and the reader that SQL engines share.

For clients whose `execute(statement, values)` returns an object with `fetchone` and `fetchall`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dyno.suites.records.port import Key, Reader, Record

FIELDS = "name, location, stub"


class Statements:
    """The reading statements and the deletion, with the client's placeholder for a value: '?' or '%s'."""

    def __init__(self, mark: str = "?") -> None:
        records = f"SELECT {FIELDS} FROM records WHERE"
        self.get = f"{records} name = {mark} AND location = {mark}"
        self.scan = f"{records} (name, location) >= ({mark}, {mark}) ORDER BY name, location LIMIT {mark}"
        self.delete = f"DELETE FROM records WHERE name = {mark} AND location = {mark}"
        self._find = f"{records} {{}} = {mark}"

    def find(self, expression: str) -> str:
        """The lookup by an indexed column or expression."""
        return self._find.format(expression)


def record(row: tuple[str, str, str]) -> Record:
    """The record in a row of FIELDS."""
    return {"name": row[0], "location": row[1], "stub": row[2]}


class SqlReader(Reader):
    """Reads on one connection, in its current transaction.

    `indexed`: the column or expression of each index that is not a column of the index's name. `many`: returns the
    present records of some keys, if the engine has one statement for that.
    """

    def __init__(
        self,
        execute: Callable[..., Any],
        statements: Statements,
        indexed: Mapping[str, str] = MappingProxyType({}),
        many: Callable[[list[Key]], dict[Key, Record]] | None = None,
    ) -> None:
        self._execute, self._statements, self._indexed, self._many = execute, statements, indexed, many

    def get(self, key: Key) -> Record | None:
        row = self._execute(self._statements.get, key).fetchone()
        return None if row is None else record(row)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        if self._many is None:
            return super().get_many(keys)
        records = self._many(list(dict.fromkeys(keys)))
        return [records.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        execute, statement = self._execute, self._statements.find(self._indexed.get(index, index))

        def find(indexed: str) -> Record | None:
            row = execute(statement, (indexed,)).fetchone()
            return None if row is None else record(row)

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        execute, statement = self._execute, self._statements.scan

        def scan(key: Key) -> list[Record]:
            return [record(row) for row in execute(statement, (*key, count)).fetchall()]

        return scan
