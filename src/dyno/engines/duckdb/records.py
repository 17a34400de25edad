"""DuckDB through the port `records`.

DuckDB's documentation says that indexes find rows by one column only. So a third column has both parts of the key as
one string, and is the table's primary key.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.engines.duckdb import DuckDB
from dyno.suites.records.encoding import identity
from dyno.suites.records.port import INDEXES, Key, Record
from dyno.suites.records.sql import FIELDS, RecordTable, SqlReader, Statements, batches, record

# Rows per statement. One statement for each row would be far slower.
BATCH = 20_000
VERBS = {"insert": "INSERT", "upsert": "INSERT OR REPLACE"}
"""SQL for the actions of an appender."""

RECORDS = f"SELECT {FIELDS} FROM records"
# The row comparison defines the result. The additional `name >= ?` lets DuckDB skip whole row groups.
STATEMENTS = Statements()
STATEMENTS.scan = f"{RECORDS} WHERE name >= $1 AND (name, location) >= ($1, $2) ORDER BY name, location LIMIT $3"
REQUESTED = "(SELECT unnest($1) AS requested)"
GET_MANY = f"{RECORDS} JOIN {REQUESTED} ON key = requested"
DELETE_MANY = f"DELETE FROM records USING {REQUESTED} WHERE key = requested"


class TableReader(SqlReader):
    """Reads through one cursor, inside or outside of a transaction, by statements that are parsed once."""

    def __init__(self, cursor: Any, many: Callable[[list[Key]], dict[Key, Record]]) -> None:
        self._cursor = cursor
        super().__init__(cursor.execute, STATEMENTS)
        self._many_keys = many
        self._get = self.prepared(f"{RECORDS} WHERE key = ?")

    def prepared(self, statement: str) -> Any:
        return parsed(self._cursor, statement)

    def get(self, key: Key) -> Record | None:
        row = self._cursor.execute(self._get, (identity(*key),)).fetchone()
        return None if row is None else record(row)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        return [self.get(keys[0])] if len(keys) == 1 else list(map(self._many_keys(list(keys)).get, keys))


class Table(RecordTable):
    batch = BATCH

    def __init__(self, engine: DuckDB, indexed: bool) -> None:
        self._cursor = cursor = engine.db.cursor()
        self._indexes = tuple(INDEXES.items()) if indexed else ()
        names = ["name", "location", "stub", *(name for name, _ in self._indexes)]
        columns = ", ".join(f"{name} VARCHAR NOT NULL" for name in names)
        cursor.execute(f"CREATE TABLE IF NOT EXISTS records (key VARCHAR PRIMARY KEY, {columns})")
        for name, _ in self._indexes:
            cursor.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({name})")
        self.current = TableReader(cursor, self.get_many)
        values = ", ".join("?" * (len(names) + 1))
        self._one = {
            action: parsed(cursor, f"{verb} INTO records VALUES ({values})") for action, verb in VERBS.items()
        }
        self._lists = f"INTO records SELECT {', '.join(f'unnest(${n + 1})' for n in range(len(names) + 1))}"
        self._delete = parsed(cursor, "DELETE FROM records WHERE key = ?")
        # DuckDB's bulk loader, which its Python client has since version 2.0.
        self._appender = getattr(cursor, "appender", None)

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self._cursor.execute)

    def _row(self, record: Record) -> tuple[str, ...]:
        name, location = record["name"], record["location"]
        indexed = (value(record) for _, value in self._indexes)
        return (identity(name, location), name, location, record["stub"], *indexed)

    def _write(self, action: str, records: list[Record]) -> None:
        rows = list(map(self._row, records))
        if len(rows) == 1:
            self._cursor.execute(self._one[action], rows[0])
        elif self._appender is None:
            self._cursor.execute(f"{VERBS[action]} {self._lists}", list(map(list, zip(*rows, strict=True))))
        else:
            appender = self._appender("records", action=action)
            appender.append_rows(rows)
            appender.flush()

    def insert_one(self, record: Record) -> None:
        self._write("insert", [record])

    def insert_many(self, records: Iterable[Record]) -> None:
        for batch in batches(records, BATCH):
            self._write("insert", batch)

    def store(self, records: list[Record]) -> None:
        self._write("upsert", records)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        rows = self._cursor.execute(GET_MANY, [[identity(*key) for key in keys]]).fetchall()
        return {(row[0], row[1]): record(row) for row in rows}

    def delete_one(self, key: Key) -> bool:
        return bool(self._cursor.execute(self._delete, (identity(*key),)).fetchone()[0])

    def delete_many(self, keys: list[Key]) -> None:
        self._cursor.execute(DELETE_MANY, [[identity(*key) for key in keys]])

    def close(self) -> None:
        self._cursor.close()


def parsed(cursor: Any, statement: str) -> Any:
    """Returns a parsed statement. DuckDB plans it at each execution, as it does for PREPARE, which takes values as
    text."""
    (result,) = cursor.extract_statements(statement)
    return result
