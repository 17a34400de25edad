"""The `records` port over a SQL table whose client has a way for one record and a way for many.

A transaction of one record uses single statements; a larger one what the engine's users do in bulk: COPY, lists of
columns, inserts of many rows. Which it is, the transaction's size decides, alike for every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from typing import Any, Protocol

from dyno.suites.records.port import Key, Reader, Record


class Table(Protocol):
    """One client's access to the table."""

    batch: int
    """Records that are read, replaced or deleted together within a transaction."""

    @property
    def reader(self) -> Reader:
        """Reads in whatever transaction the client is in."""

    def transaction(self) -> AbstractContextManager[object]:
        """Committed at the end of the block, rolled back if it raises."""

    def insert_one(self, record: Record) -> None:
        """A transaction of its own."""

    def insert_many(self, records: Iterable[Record]) -> None:
        """Inside a transaction."""

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        """Those that there are."""

    def store(self, records: list[Record]) -> None:
        """Inserts or replaces; no key comes twice. Inside a transaction."""

    def replace_one(self, new: Record) -> Record | None:
        """A transaction of its own: inserts or replaces, and returns the old one. `in_steps` where the server has no
        shorter way."""

    def delete_one(self, key: Key) -> bool:
        """A transaction of its own: whether it was there."""

    def delete_many(self, keys: list[Key]) -> None:
        """Records that are there. Inside a transaction."""

    def close(self) -> None: ...


class TableRecords:
    """See `dyno.suites.records.port.Records`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self._table.transaction():
            yield self._table.reader

    def reader(self) -> Reader:
        return self._table.reader

    def insert(self, records: Iterable[Record]) -> None:
        first, every = _ahead(records)
        if len(first) == 1:
            self._table.insert_one(first[0])
        elif first:
            with self._table.transaction():
                self._table.insert_many(every)

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        table, olds = self._table, list[Record | None]()
        first, every = _ahead(records)
        if len(first) == 1:
            return [table.replace_one(first[0])]
        with table.transaction():
            for batch in batches(every, table.batch):
                keys = [(new["name"], new["location"]) for new in batch]
                latest = self._there(keys)
                for key, new in zip(keys, batch, strict=True):
                    olds.append(latest.get(key))
                    latest[key] = new
                table.store([latest[key] for key in dict.fromkeys(keys)])
        return olds

    def _there(self, keys: list[Key]) -> dict[Key, Record]:
        if len(keys) > 1:
            return self._table.get_many(list(dict.fromkeys(keys)))
        found = self._table.reader.get(keys[0])
        return {} if found is None else {keys[0]: found}

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        first, every = _ahead(keys)
        if len(first) == 1:
            return [self._table.delete_one(first[0])]
        found: list[bool] = []
        with self._table.transaction():
            for batch in batches(every, self._table.batch):
                there = self._there(batch)
                self._table.delete_many(list(there))
                # Only the first mention of a key finds it.
                found += [there.pop(key, None) is not None for key in batch]
        return found

    def close(self) -> None:
        self._table.close()


def opener(table: Callable[[Any, bool], Table]) -> Callable[[Any, bool], TableRecords]:
    """The port's class as an engine declares it, of the class of its table."""
    return lambda engine, indexed: TableRecords(table(engine, indexed))


def in_steps(table: Table, new: Record) -> Record | None:
    """`Table.replace_one` by four statements: BEGIN, a read, a write, COMMIT."""
    with table.transaction():
        old = table.reader.get((new["name"], new["location"]))
        table.store([new])
    return old


def batches(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def _ahead(items: Iterable[Any]) -> tuple[list[Any], Iterable[Any]]:
    """The first two, to see whether there is more than one, and all."""
    rest = iter(items)
    first = list(islice(rest, 2))
    return first, chain(first, rest)
