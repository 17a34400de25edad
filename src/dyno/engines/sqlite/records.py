"""SQLite through the port `records`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dyno.contracts.cleanup import transaction
from dyno.engines.sqlite import SQLite
from dyno.suites.records.port import INDEXES, Key, Reader, Record
from dyno.suites.records.sql import SqlReader, Statements

STATEMENTS = Statements()


class Records:
    """A table clustered on the key. The indexed values are columns, since SQLite can't reverse a string."""

    def __init__(self, engine: SQLite, indexed: bool) -> None:
        self._connection = connection = engine.connect()
        self._indexed = indexed
        self._reader = SqlReader(connection.execute, STATEMENTS)
        names = ["name", "location", "stub", *(INDEXES if indexed else ())]
        self._insert = f"INSERT INTO records ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        values = ", ".join(f"{name} = excluded.{name}" for name in names[2:])
        self._upsert = f"{self._insert} ON CONFLICT (name, location) DO UPDATE SET {values}"
        columns = "".join(f", {name} TEXT NOT NULL" for name in INDEXES) if indexed else ""
        connection.execute(
            "CREATE TABLE IF NOT EXISTS records (name TEXT NOT NULL, location TEXT NOT NULL, stub TEXT NOT NULL"
            f"{columns}, PRIMARY KEY (name, location)) WITHOUT ROWID"
        )
        for name in INDEXES if indexed else ():
            connection.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({name})")

    def _row(self, record: Record) -> tuple[str, ...]:
        name, location = record["name"], record["location"]
        if self._indexed:
            return name, location, record["stub"], name[::-1], location[::-1]
        return name, location, record["stub"]

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with transaction(self._connection.execute):
            yield self._reader

    def reader(self) -> Reader:
        return self._reader

    def insert(self, records: Iterable[Record]) -> None:
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(self._insert, map(self._row, records))

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        olds, get, execute = [], self._reader.get, self._connection.execute
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            for record in records:
                olds.append(get((record["name"], record["location"])))
                execute(self._upsert, self._row(record))
        return olds

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            return [self._connection.execute(STATEMENTS.delete, key).rowcount == 1 for key in keys]

    def close(self) -> None:
        self._connection.close()
