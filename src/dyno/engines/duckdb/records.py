"""DuckDB through the port `records`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from dyno.engines.duckdb.opener import DuckDB
from dyno.suites.records.port import INDEXES, Key, Record
from dyno.suites.records.sql import FIELDS, SqlReader, Statements, record, transaction
from dyno.suites.records.table import batches, in_steps

# DuckDB takes a list per column far faster than a row per statement: this many rows a list.
BATCH = 20_000


STATEMENTS = Statements()
# The row comparison is what the query means; the bare `name >= ?` lets DuckDB skip whole row groups.
STATEMENTS.scan = (
    f"SELECT {FIELDS} FROM records WHERE name >= $1 AND (name, location) >= ($1, $2) ORDER BY name, location LIMIT $3"
)
KEYS = "(SELECT unnest($1) AS k_name, unnest($2) AS k_location)"
GET_MANY = f"SELECT {FIELDS} FROM records JOIN {KEYS} ON name = k_name AND location = k_location"
DELETE_MANY = f"DELETE FROM records USING {KEYS} WHERE name = k_name AND location = k_location"


class Table:
    """See `dyno.suites.records.table.Table`: many records are lists of columns."""

    batch = BATCH

    def __init__(self, engine: DuckDB, indexed: bool) -> None:
        self._cursor = cursor = engine.db.cursor()
        self._indexes = tuple(INDEXES.items()) if indexed else ()
        self.reader = SqlReader(cursor.execute, STATEMENTS, many=self.get_many)
        names = ["name", "location", "stub", *(name for name, _ in self._indexes)]
        self._one = f"INTO records VALUES ({', '.join('?' * len(names))})"
        self._many = f"INTO records SELECT {', '.join(f'unnest(${n + 1})' for n in range(len(names)))}"
        columns = ", ".join(f"{name} VARCHAR NOT NULL" for name in names)
        cursor.execute(f"CREATE TABLE IF NOT EXISTS records ({columns}, PRIMARY KEY (name, location))")
        for name, _ in self._indexes:
            cursor.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({name})")

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self._cursor.execute)

    def _write(self, verb: str, records: list[Record]) -> None:
        values = [[record[field] for record in records] for field in ("name", "location", "stub")]
        values += [[function(record) for record in records] for _, function in self._indexes]
        if len(records) == 1:
            self._cursor.execute(f"{verb} {self._one}", [column[0] for column in values])
        else:
            self._cursor.execute(f"{verb} {self._many}", values)

    def insert_one(self, record: Record) -> None:
        self._write("INSERT", [record])

    def insert_many(self, records: Iterable[Record]) -> None:
        for batch in batches(records, BATCH):
            self._write("INSERT", batch)

    def store(self, records: list[Record]) -> None:
        self._write("INSERT OR REPLACE", records)

    def replace_one(self, new: Record) -> Record | None:
        return in_steps(self, new)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        rows = self._cursor.execute(GET_MANY, _columns(keys)).fetchall()
        return {(row[0], row[1]): record(row) for row in rows}

    def delete_one(self, key: Key) -> bool:
        return bool(self._cursor.execute(STATEMENTS.delete, key).fetchone()[0])

    def delete_many(self, keys: list[Key]) -> None:
        self._cursor.execute(DELETE_MANY, _columns(keys))

    def close(self) -> None:
        self._cursor.close()


def _columns(keys: list[Key]) -> list[list[str]]:
    return [[name for name, _ in keys], [location for _, location in keys]]
