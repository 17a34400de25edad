"""Reader and table that SQL engines share.

They work with clients whose `execute(statement, values)` returns an object with `fetchone` and `fetchall`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, TypeVar

from dyno.contracts.cleanup import transaction
from dyno.suites.records.port import Key, Reader, Record, Records

T = TypeVar("T")
FIELDS = "name, location, stub"


class Statements:
    """Statements for reading and deleting, with the client's placeholder for a value: '?' or '%s'."""

    def __init__(self, mark: str = "?") -> None:
        records = f"SELECT {FIELDS} FROM records WHERE"
        self.get = f"{records} name = {mark} AND location = {mark}"
        self.scan = f"{records} (name, location) >= ({mark}, {mark}) ORDER BY name, location LIMIT {mark}"
        self.delete = f"DELETE FROM records WHERE name = {mark} AND location = {mark}"
        self._find = f"{records} {{}} = {mark}"

    def find(self, expression: str) -> str:
        """Returns the query that looks records up by an indexed column or expression."""
        return self._find.format(expression)


def read_record(row: tuple[str, str, str]) -> Record:
    """Returns the record in a row of FIELDS."""
    return {"name": row[0], "location": row[1], "stub": row[2]}


class SqlReader(Reader):
    """Reads on one connection, in its current transaction. `indexed`: the column or expression of each index whose
    column doesn't have the index's name. `many`: returns those of the requested records that exist, if the engine has
    a single statement for that."""

    def __init__(
        self,
        execute: Callable[..., Any],
        statements: Statements,
        indexed: Mapping[str, str] = MappingProxyType({}),
        many: Callable[[list[Key]], dict[Key, Record]] | None = None,
    ) -> None:
        self._execute = execute
        self._statements = statements
        self._indexed = indexed
        self._many = many

    def prepare_statement(self, statement: str) -> object:
        """Returns the statement in the form that `execute` accepts."""
        return statement

    def get(self, key: Key) -> Record | None:
        row = self._execute(self._statements.get, key).fetchone()
        if row is None:
            return None
        return read_record(row)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        if self._many is None:
            return super().get_many(keys)
        records = self._many(list(dict.fromkeys(keys)))
        return [records.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        execute, statement = (
            self._execute,
            self.prepare_statement(self._statements.find(self._indexed.get(index, index))),
        )

        def find(indexed: str) -> Record | None:
            row = execute(statement, (indexed,)).fetchone()
            if row is None:
                return None
            return read_record(row)

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        execute, statement = self._execute, self.prepare_statement(self._statements.scan)

        def scan(key: Key) -> list[Record]:
            return [read_record(row) for row in execute(statement, (*key, count)).fetchall()]

        return scan


class RecordTable(Records):
    """Base of a `records` port over a SQL table, for clients that treat one record and many records differently.

    A transaction of one record uses single statements. A larger one uses the means of the engine's users for bulk
    data: COPY, arrays of keys, inserts of many rows. The size of the transaction decides, for every engine in the
    same way. `insert_one`, `replace_one` and `delete_one` are a transaction each. The methods for many records are
    called inside `transaction`. Subclasses set `_connection` and `_execute`.
    """

    _connection: Any
    _execute: Callable[..., Any]

    batch: int
    """Number of records that are read, replaced or deleted together within a transaction."""
    current: Reader
    """Reader in the client's current transaction."""

    def transaction(self) -> AbstractContextManager[object]:
        """Opens a transaction. It commits at the end of the block, and rolls back if the block raises."""
        return transaction(self._execute)

    def insert_one(self, record: Record) -> None: ...

    def insert_many(self, records: Iterable[Record]) -> None: ...

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        """Returns the records of those keys that exist."""
        raise NotImplementedError

    def store(self, records: list[Record]) -> None:
        """Inserts or replaces records. No key comes twice."""

    def store_over(self, records: list[Record], present: Mapping[Key, Record]) -> None:
        """Like `store`, for engines whose inserts are not their replacements. `present`: the old records."""
        self.store(records)

    def replace_one(self, new: Record) -> Record | None:
        """Inserts or replaces a record, and returns the old record. By default it uses four statements: BEGIN, a
        read, a write, COMMIT."""
        with self.transaction():
            old = self.current.get((new["name"], new["location"]))
            self.store([new])
        return old

    def delete_one(self, key: Key) -> bool:
        """Deletes a record. Returns whether it existed."""
        raise NotImplementedError

    def delete_many(self, keys: list[Key]) -> None:
        """Deletes records, all of which exist."""

    def close(self) -> None:
        self._connection.close()

    # -- the port -------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self.transaction():
            yield self.current

    def reader(self) -> Reader:
        return self.current

    def insert(self, records: Iterable[Record]) -> None:
        first, everything = _peek(records)
        if len(first) == 1:
            self.insert_one(first[0])
        elif first:
            with self.transaction():
                self.insert_many(everything)

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        first, everything = _peek(records)
        if len(first) == 1:
            return [self.replace_one(first[0])]
        olds = list[Record | None]()
        with self.transaction():
            for batch in batches(everything, self.batch):
                keys = [(new["name"], new["location"]) for new in batch]
                present = self._read_present(keys)
                latest = dict(present)
                for key, new in zip(keys, batch, strict=True):
                    olds.append(latest.get(key))
                    latest[key] = new
                self.store_over([latest[key] for key in dict.fromkeys(keys)], present)
        return olds

    def _read_present(self, keys: list[Key]) -> dict[Key, Record]:
        if len(keys) > 1:
            return self.get_many(list(dict.fromkeys(keys)))
        record = self.current.get(keys[0])
        if record is None:
            return {}
        return {keys[0]: record}

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        first, everything = _peek(keys)
        if len(first) == 1:
            return [self.delete_one(first[0])]
        existed: list[bool] = []
        with self.transaction():
            for batch in batches(everything, self.batch):
                present = self._read_present(batch)
                self.delete_many(list(present))
                # Only the first occurrence of a key deletes the record.
                existed += [present.pop(key, None) is not None for key in batch]
        return existed


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _peek(items: Iterable[T]) -> tuple[list[T], Iterable[T]]:
    """Returns up to two items, which tell one from many, and an iterator over all items."""
    rest = iter(items)
    first = list(islice(rest, 2))
    return first, chain(first, rest)
