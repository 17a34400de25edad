"""DuckDB through the port `sql`. Its transactions see a snapshot, which is the isolation `repeatable-read`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import UUID

from dyno.contracts.cleanup import finally_
from dyno.contracts.model import Refused
from dyno.engines.duckdb import DuckDB
from dyno.suites.sql.language.splitter import quote_name
from dyno.suites.sql.language.statements import read_statement
from dyno.suites.sql.port import DEFAULT, Session, check_isolation, check_not_there
from dyno.suites.sql.times import without_zone

if TYPE_CHECKING:
    import duckdb

ROWS = "loaded_rows"
"""Name of the Arrow table in statements."""
COUNTS = ("Count", "Success")
"""Names of the column that a statement without rows has instead."""
ZONED = "TIMESTAMP WITH TIME ZONE"
READS = ("SELECT", "TRANSACTION")
EFFECTS = re.compile(r"\b(nextval|(?:force_)?checkpoint|write_log)\s*\(", re.I)
"""Functions with which a SELECT changes something."""
EXPLAIN = re.compile(r"\s*EXPLAIN(?:\s+ANALYZE|\s*\([^)]*\))*\s*(.*)", re.I | re.S)


class Sql:
    def __init__(self, engine: DuckDB, session: Session = DEFAULT) -> None:
        import duckdb

        check_not_there(session)
        check_isolation(session.isolation, ("repeatable-read",))
        self._errors, self._read_only = duckdb.TransactionException, session.read_only
        self._cursor = engine.db.cursor()
        self._cursor.execute("SET TimeZone = 'UTC'")

    def define(self, script: str) -> None:
        for statement in self._parse_script(script):
            self._cursor.execute(statement)

    def load(self, table: str, columns: Mapping[str, Sequence[object]]) -> None:
        import pyarrow

        if self._read_only:
            raise Refused("a session that only reads loads no rows")
        # Arrow has no type for UUIDs; DuckDB casts their text.
        names, lists = ", ".join(map(quote_name, columns)), columns.values()
        texts = [[str(value) if type(value) is UUID else value for value in column] for column in lists]
        self._cursor.register(ROWS, pyarrow.table(texts, list(columns)))
        with finally_(lambda: self._cursor.unregister(ROWS)):
            self._cursor.execute(f"INSERT INTO {quote_name(table)} ({names}) SELECT {names} FROM {ROWS}").fetchall()

    def _parse_script(self, script: str) -> Sequence[duckdb.Statement]:
        """Returns the parsed statements. DuckDB plans them at each execution, as it does for PREPARE."""
        parsed = self._cursor.extract_statements(script)
        # A connection can't be read-only while others of this process write.
        for statement in parsed if self._read_only else ():
            self._check_reading(statement)
        return parsed

    def _check_reading(self, statement: duckdb.Statement) -> None:
        """Raises Refused for a statement that may change the store, or write other files."""
        kind = statement.type.name
        if kind == "EXPLAIN" and (explained := EXPLAIN.fullmatch(statement.query)):
            # EXPLAIN ANALYZE executes the statement.
            for each in self._cursor.extract_statements(explained.group(1)):
                self._check_reading(each)
        elif call := EFFECTS.search(statement.query):
            raise Refused(f"a session that only reads does not call {call.group(1)}")
        elif kind not in READS or (kind == "SELECT" and read_statement(statement.query, 0, str)[0].writes()):
            # DuckDB's SELECT may begin with a DELETE in WITH.
            raise Refused(f"a session that only reads executes no {kind}")

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[object]], object]:
        cursor, (parsed,) = self._cursor, self._parse_script("?".join(pieces))
        execute, fetch = cursor.execute, cursor.fetchall
        reads, zoned = parsed.type.name == "SELECT", None

        def run(values: Sequence[object]) -> object:
            nonlocal zoned
            execute(parsed, values)
            if not reads and (cursor.rowcount >= 0 or cursor.description[0][0] in COUNTS):
                return max(cursor.rowcount, 0)
            if zoned is None:
                zoned = [at for at, column in enumerate(cursor.description) if column[1] == ZONED]
            if zoned:
                return without_zone(fetch(), zoned)
            return fetch()

        def run_named(values: Sequence[object]) -> object:
            rows = run(values)
            return [column[0] for column in cursor.description], rows if type(rows) is list else []

        if named:
            return run_named
        return run

    def rollback(self) -> None:
        # DuckDB has no way to ask whether a transaction is open.
        with suppress(self._errors):
            self._cursor.rollback()

    def aborted(self, error: Exception) -> bool:
        return isinstance(error, self._errors) and "onflict" in str(error)

    def close(self) -> None:
        self._cursor.close()
