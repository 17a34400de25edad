"""PostgreSQL through the port `sql`: statements that psycopg prepares on the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.model import Refused
from dyno.engines.postgresql import Postgres
from dyno.suites.sql.port import DEFAULT, ISOLATIONS, Session, check_isolation, check_there
from dyno.suites.sql.splitter import quoted, statements
from dyno.suites.sql.tabbed import blocks

ABORTED = ("40001", "40P01")
"""The states serialization_failure and deadlock_detected."""
PREPARED = 1_000
"""Maximum number of prepared statements of a connection."""


def adapted(connection: Any) -> Any:
    """Returns the connection with some of psycopg's types changed."""
    from psycopg.types.datetime import TimestamptzLoader
    from psycopg.types.numeric import Int4, IntBinaryDumper
    from psycopg.types.string import TextLoader

    class Integers(IntBinaryDumper):
        """Sends integers as `integer` or, if they are too large, `bigint`. psycopg itself has `smallint` too, and
        prepares a statement for each combination of its parameters' types."""

        def get_key(self, obj: int, format: Any) -> Any:
            return Int4 if -(2**31) <= obj < 2**31 else super().get_key(obj, format)

        def upgrade(self, obj: int, format: Any) -> Any:
            return super().upgrade(2**30 if -(2**31) <= obj < 2**31 else obj, format)

    class Utc(TimestamptzLoader):
        def load(self, data: Any) -> datetime:
            return super().load(data).replace(tzinfo=None)

    connection.adapters.register_dumper(int, Integers)
    for kind, loader in (("timestamptz", Utc), ("json", TextLoader), ("jsonb", TextLoader)):
        connection.adapters.register_loader(kind, loader)
    connection.prepared_max = PREPARED
    return connection


class Sql:
    def __init__(self, engine: Postgres, session: Session = DEFAULT) -> None:
        if engine.options["client"] != "psycopg" or engine.options["many"] != "list":
            raise Refused("client=pq, client=native and many=pipeline are ways to single records: leave them out")
        check_isolation(session.isolation, ISOLATIONS)
        self._connection = connection = adapted(engine.connect_there() if session.there else engine.connect())
        if session.there:
            with undo_on_error(connection.close):
                check_there(session, engine.server, connection.info.dbname)
        connection.execute("SET TimeZone TO 'UTC'")
        if session.isolation:
            connection.execute(f"SET default_transaction_isolation TO '{session.isolation.replace('-', ' ')}'")
        if session.read_only:
            connection.execute("SET default_transaction_read_only TO on")

    def define(self, script: str) -> None:
        # Statements that are sent together are one transaction, in which VACUUM is not allowed.
        for statement in statements(script):
            self._connection.execute(statement)

    def load(self, table: str, columns: Mapping[str, Sequence[Any]]) -> None:
        names = ", ".join(map(quoted, columns))
        with self._connection.cursor().copy(f"COPY {quoted(table)} ({names}) FROM STDIN") as copy:
            for block in blocks(columns, "\\\\x"):
                copy.write(block)

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[Any]], Any]:
        text, cursor = "%s".join(piece.replace("%", "%%") for piece in pieces), self._connection.cursor()
        execute, fetch = cursor.execute, cursor.fetchall

        def run(values: Sequence[Any]) -> Any:
            execute(text, values, prepare=True)
            return fetch() if cursor.pgresult.nfields else max(cursor.rowcount, 0)

        def run_named(values: Sequence[Any]) -> Any:
            execute(text, values, prepare=True)
            names = [column.name for column in cursor.description or ()]
            return names, fetch() if names else []

        return run_named if named else run

    def rollback(self) -> None:
        self._connection.rollback()

    def aborted(self, error: Exception) -> bool:
        return getattr(error, "sqlstate", None) in ABORTED

    def close(self) -> None:
        self._connection.close()
