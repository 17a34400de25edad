"""What SQL engines share: the table's reading statements, and a transaction by BEGIN and COMMIT.

For clients whose `execute(statement, values)` returns something with `fetchone` and `fetchall`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from dyno.contracts.cleanup import undo_on_error
from dyno.suites.records.port import Key, Reader, Record

FIELDS = "name, location, stub"


class Statements:
    """The reading statements and the deletion, with a client's mark for a value: '?' or '%s'."""

    def __init__(self, mark: str = "?") -> None:
        records = f"SELECT {FIELDS} FROM records WHERE"
        self.get = f"{records} name = {mark} AND location = {mark}"
        self.scan = f"{records} (name, location) >= ({mark}, {mark}) ORDER BY name, location LIMIT {mark}"
        self.delete = f"DELETE FROM records WHERE name = {mark} AND location = {mark}"
        self._find = f"{records} {{}} = {mark}"

    def find(self, what: str) -> str:
        """By an indexed column or expression."""
        return self._find.format(what)


def record(row: tuple[str, str, str]) -> Record:
    """A row of FIELDS as the application sees it."""
    return {"name": row[0], "location": row[1], "stub": row[2]}


class SqlReader(Reader):
    """Reads on one connection, in whatever transaction it is in. `indexed` has the column or expression of each
    index that is not a column of its name; `many` finds those of some keys that there are, where there is a way for
    that."""

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
        found = self._many(list(dict.fromkeys(keys)))
        return [found.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        execute, statement = self._execute, self._statements.find(self._indexed.get(index, index))

        def find(value: str) -> Record | None:
            row = execute(statement, (value,)).fetchone()
            return None if row is None else record(row)

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        execute, statement = self._execute, self._statements.scan

        def scan(key: Key) -> list[Record]:
            return [record(row) for row in execute(statement, (*key, count)).fetchall()]

        return scan


@contextmanager
def transaction(execute: Callable[..., Any], begin: str = "BEGIN") -> Iterator[None]:
    """Committed at the end of the block, rolled back if it raises."""
    execute(begin)
    with undo_on_error(lambda: execute("ROLLBACK")):
        yield
    execute("COMMIT")
