"""Reading statements and the reader that SQL engines share.

For clients whose `execute(statement, values)` returns an object with `fetchone` and `fetchall`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Protocol

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

    def prepared(self, statement: str) -> Any:
        """Returns what `execute` takes for this statement."""
        return statement

    def get(self, key: Key) -> Record | None:
        row = self._execute(self._statements.get, key).fetchone()
        return None if row is None else record(row)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        if self._many is None:
            return super().get_many(keys)
        records = self._many(list(dict.fromkeys(keys)))
        return [records.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        execute, statement = self._execute, self.prepared(self._statements.find(self._indexed.get(index, index)))

        def find(indexed: str) -> Record | None:
            row = execute(statement, (indexed,)).fetchone()
            return None if row is None else record(row)

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        execute, statement = self._execute, self.prepared(self._statements.scan)

        def scan(key: Key) -> list[Record]:
            return [record(row) for row in execute(statement, (*key, count)).fetchall()]

        return scan


class RecordTable(Protocol):
    """One client's access to the table. `insert_one`, `replace_one` and `delete_one` are a transaction each; the
    methods for many records are called inside `transaction`."""

    batch: int
    """Records that are read, replaced or deleted together within a transaction."""

    @property
    def reader(self) -> Reader:
        """Reads in the client's current transaction."""

    def transaction(self) -> AbstractContextManager[object]:
        """Commits at the end of the block, rolls back if it raises."""

    def insert_one(self, record: Record) -> None: ...

    def insert_many(self, records: Iterable[Record]) -> None: ...

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        """The records of those keys that are present."""

    def store(self, records: list[Record]) -> None:
        """Inserts or replaces records; no key comes twice."""

    def replace_one(self, new: Record) -> Record | None:
        """Inserts or replaces, and returns the old record. Use `replace_in_transaction` if the server has no shorter
        way."""

    def delete_one(self, key: Key) -> bool:
        """Returns whether the record existed."""

    def delete_many(self, keys: list[Key]) -> None:
        """Deletes records that are present."""

    def close(self) -> None: ...


class TableRecords:
    """See `dyno.suites.records.port.Records`."""

    def __init__(self, table: RecordTable) -> None:
        self._table = table

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self._table.transaction():
            yield self._table.reader

    def reader(self) -> Reader:
        return self._table.reader

    def insert(self, records: Iterable[Record]) -> None:
        first, everything = _peek(records)
        if len(first) == 1:
            self._table.insert_one(first[0])
        elif first:
            with self._table.transaction():
                self._table.insert_many(everything)

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        table, olds = self._table, list[Record | None]()
        first, everything = _peek(records)
        if len(first) == 1:
            return [table.replace_one(first[0])]
        with table.transaction():
            for batch in batches(everything, table.batch):
                keys = [(new["name"], new["location"]) for new in batch]
                latest = self._present(keys)
                for key, new in zip(keys, batch, strict=True):
                    olds.append(latest.get(key))
                    latest[key] = new
                table.store([latest[key] for key in dict.fromkeys(keys)])
        return olds

    def _present(self, keys: list[Key]) -> dict[Key, Record]:
        if len(keys) > 1:
            return self._table.get_many(list(dict.fromkeys(keys)))
        record = self._table.reader.get(keys[0])
        return {} if record is None else {keys[0]: record}

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        first, everything = _peek(keys)
        if len(first) == 1:
            return [self._table.delete_one(first[0])]
        existed: list[bool] = []
        with self._table.transaction():
            for batch in batches(everything, self._table.batch):
                present = self._present(batch)
                self._table.delete_many(list(present))
                # Only the first occurrence of a key deletes it.
                existed += [present.pop(key, None) is not None for key in batch]
        return existed

    def close(self) -> None:
        self._table.close()


def table_port(table: Callable[[Any, bool], RecordTable]) -> Callable[[Any, bool], TableRecords]:
    """The port's opener, as an engine declares it, made from the class of its table."""
    return lambda engine, indexed: TableRecords(table(engine, indexed))


def replace_in_transaction(table: RecordTable, new: Record) -> Record | None:
    """`RecordTable.replace_one` by four statements: BEGIN, a read, a write, COMMIT."""
    with table.transaction():
        old = table.reader.get((new["name"], new["location"]))
        table.store([new])
    return old


def batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _peek(items: Iterable[Any]) -> tuple[list[Any], Iterable[Any]]:
    """Up to two items, to tell one from many, and an iterator over all items."""
    rest = iter(items)
    first = list(islice(rest, 2))
    return first, chain(first, rest)
