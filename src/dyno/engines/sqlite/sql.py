"""SQLite through the port `sql`. Decimals become floats; times and UUIDs become text, as SQLite's functions do."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from dyno.contracts.cleanup import transaction
from dyno.engines.sqlite import SQLite
from dyno.suites.sql.language.splitter import quote_name
from dyno.suites.sql.port import DEFAULT, Session, check_isolation, check_not_there

sqlite3.register_adapter(Decimal, float)
for kind in (date, datetime, UUID):
    sqlite3.register_adapter(kind, str)


READING = (
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE),
    sqlite3.SQLITE_TRANSACTION,
)
REACHING = ("load_extension", "writefile", "edit", "fts3_tokenizer")
"""Functions that reach files and programs, where SQLite has them."""


def authorize_reading(action: int, first: str | None, second: str | None, *others: str | None) -> int:
    """Tells SQLite which parts of a statement are allowed in a session that only reads. PRAGMA, ATTACH and VACUUM are
    not."""
    if action not in READING or (action == sqlite3.SQLITE_FUNCTION and second in REACHING):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


class Sql:
    def __init__(self, engine: SQLite, session: Session = DEFAULT) -> None:
        check_not_there(session)
        check_isolation(session.isolation, ("serializable",))
        self._connection = engine.connect()
        self._connection.execute(f"PRAGMA query_only={int(session.read_only)}")
        if session.read_only:
            self._connection.set_authorizer(authorize_reading)

    def define(self, script: str) -> None:
        self._connection.executescript(script)

    def load(self, table: str, columns: Mapping[str, Sequence[object]]) -> None:
        names, marks = ", ".join(map(quote_name, columns)), ", ".join("?" * len(columns))
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(
                f"INSERT INTO {quote_name(table)} ({names}) VALUES ({marks})", zip(*columns.values(), strict=True)
            )

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[object]], object]:
        text, execute = "?".join(pieces), self._connection.execute

        def run(values: Sequence[object]) -> object:
            cursor = execute(text, values)
            if cursor.description is not None:
                return cursor.fetchall()
            return max(cursor.rowcount, 0)

        def run_named(values: Sequence[object]) -> object:
            cursor = execute(text, values)
            return [column[0] for column in cursor.description or ()], cursor.fetchall()

        if named:
            return run_named
        return run

    def rollback(self) -> None:
        self._connection.rollback()

    def aborted(self, error: Exception) -> bool:
        # Python 3.10 has no error codes. SQLITE_BUSY and SQLITE_LOCKED say that a database or table is locked.
        return isinstance(error, sqlite3.OperationalError) and " is locked" in str(error)

    def close(self) -> None:
        self._connection.close()
