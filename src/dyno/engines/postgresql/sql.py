"""PostgreSQL through the port `sql`: statements that psycopg prepares on the server."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.model import Refused
from dyno.contracts.native import load_native
from dyno.contracts.native_load import NATIVE_CLIENT, Exchange
from dyno.engines.postgresql import Postgres
from dyno.engines.postgresql.rights import find_volatile, read_rights
from dyno.engines.postgresql.tables import check_result
from dyno.suites.sql.language.splitter import quote_name, statements
from dyno.suites.sql.native import NativeStatement
from dyno.suites.sql.port import DEFAULT, ISOLATIONS, Protection, Session, check_isolation, check_there
from dyno.suites.sql.tabbed import blocks

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import Buffer
    from psycopg.adapt import Dumper, PyFormat

ABORTED = ("40001", "40P01")
"""The states serialization_failure and deadlock_detected."""
INT2, INT4 = 21, 23
"""Numbers of the types smallint and integer."""
TEXTS = (25, 1042, 1043)
"""Numbers of the types text, character and varchar."""
BEGIN = b"ROLLBACK; BEGIN READ ONLY"
PREPARED = 1_000
"""Maximum number of prepared statements of a connection."""
Columns = list[tuple[str, Callable[[str], object]]]
"""Names of a statement's columns, and the functions that convert their values from text."""


def adapt_types(connection: psycopg.Connection) -> Any:
    """Returns the connection with some of psycopg's types changed."""
    from psycopg.types.datetime import TimestamptzLoader
    from psycopg.types.numeric import Int4, IntBinaryDumper
    from psycopg.types.string import TextLoader

    class Integers(IntBinaryDumper):
        """Sends integers as `integer` or, if they are too large, `bigint`. psycopg itself has `smallint` too, and
        prepares a statement for each combination of its parameters' types."""

        def get_key(self, obj: int, format: PyFormat) -> type:
            if -(2**31) <= obj < 2**31:
                return Int4
            return super().get_key(obj, format)

        def upgrade(self, obj: int, format: PyFormat) -> Dumper:
            return super().upgrade(2**30 if -(2**31) <= obj < 2**31 else obj, format)

    class Utc(TimestamptzLoader):
        def load(self, data: Buffer) -> datetime:
            return super().load(data).replace(tzinfo=None)

    connection.adapters.register_dumper(int, Integers)
    for kind, loader in (("timestamptz", Utc), ("json", TextLoader), ("jsonb", TextLoader)):
        connection.adapters.register_loader(kind, loader)
    connection.prepared_max = PREPARED
    return connection


class Sql:
    aborts = ABORTED

    def __init__(self, engine: Postgres, session: Session = DEFAULT) -> None:
        client = engine.options["client"]
        if client == "pq" or engine.options["many"] != "list":
            raise Refused("client=pq and many=pipeline are ways to single records: leave them out")
        check_isolation(session.isolation, ISOLATIONS)
        self._connection = connection = adapt_types(engine.connect_there() if session.there else engine.connect())
        if session.there:
            with undo_on_error(connection.close):
                check_there(session, engine.server, connection.info.dbname)
        if client == NATIVE_CLIENT:
            with undo_on_error(connection.close):
                self._native = Statements(connection, self._begin if session.read_only else None)
        connection.execute("SET TimeZone TO 'UTC'")
        if session.isolation:
            connection.execute(f"SET default_transaction_isolation TO '{session.isolation.replace('-', ' ')}'")
        if session.read_only:
            connection.execute("SET default_transaction_read_only TO on")
        self.protection = Protection(
            begin=self._begin,
            request=b"Q" + struct.pack("!i", len(BEGIN) + 5) + BEGIN + b"\0",
            effects=partial(find_volatile, connection),
            rights=partial(read_rights, connection),
        )

    def _begin(self) -> None:
        """See `Protection.begin`. psycopg would forget its prepared statements after a ROLLBACK."""
        pgconn = self._connection.pgconn
        check_result(pgconn.exec_(BEGIN), pgconn)

    def define(self, script: str) -> None:
        # Statements that are sent together are one transaction, in which VACUUM is not allowed.
        for statement in statements(script):
            self._connection.execute(statement)

    def load(self, table: str, columns: Mapping[str, Sequence[object]]) -> None:
        names = ", ".join(map(quote_name, columns))
        with self._connection.cursor().copy(f"COPY {quote_name(table)} ({names}) FROM STDIN") as copy:
            for block in blocks(columns, "\\\\x"):
                copy.write(block)

    def statement(self, pieces: Sequence[str], named: bool = False) -> Callable[[Sequence[object]], object]:
        text, cursor = "%s".join(piece.replace("%", "%%") for piece in pieces), self._connection.cursor()
        execute, fetch = cursor.execute, cursor.fetchall

        def run(values: Sequence[object]) -> object:
            execute(text, values, prepare=True)
            if cursor.pgresult.nfields:
                return fetch()
            return max(cursor.rowcount, 0)

        def run_named(values: Sequence[object]) -> object:
            execute(text, values, prepare=True)
            names = [column.name for column in cursor.description or ()]
            return names, fetch() if names else []

        if named:
            return run_named
        return run

    @property
    def exchange(self) -> Exchange:
        return self._native.exchange

    def native_statement(self, pieces: Sequence[str], named: bool) -> NativeStatement:
        return self._native.statement(pieces, named)

    def rollback(self) -> None:
        self._connection.rollback()

    def aborted(self, error: Exception) -> bool:
        return getattr(error, "sqlstate", None) in ABORTED

    def close(self) -> None:
        self._connection.close()


class Statements:
    """Prepares statements for native load. psycopg converts parameters and results, both as text."""

    def __init__(self, connection: psycopg.Connection, begin: Callable[[], object] | None = None) -> None:
        """`begin`: begins a new transaction, since an error has perhaps ended the one in which to prepare."""
        from psycopg.adapt import Transformer

        pgconn = connection.pgconn
        self.exchange = Exchange("postgresql", pgconn.socket, bool(pgconn.ssl_in_use))
        self._pgconn = pgconn
        self._transformer = Transformer(connection)
        self._encode = load_native().postgresql
        self._begin = begin
        self._prepared = dict[tuple[str, tuple[int, ...]], tuple[bytes, Columns]]()

    def statement(self, pieces: Sequence[str], named: bool) -> NativeStatement:
        from psycopg.adapt import PyFormat

        text = "".join(f"${number}{piece}" if number else piece for number, piece in enumerate(pieces))
        formats = [PyFormat.TEXT] * (len(pieces) - 1)
        columns: Columns = []

        def request(values: Sequence[object]) -> bytes:
            nonlocal columns
            contents = self._transformer.dump_sequence(values, formats)
            types = tuple(INT4 if kind == INT2 else kind for kind in self._transformer.types or ())
            name, columns = self._prepare(text, types)
            encoded = [None if content is None else bytes(content) for content in contents]
            request: bytes = self._encode(name, encoded)
            return request

        def answer(response: int | Sequence[Sequence[str | None]]) -> object:
            if not columns:
                changed = 0
                if isinstance(response, int):
                    changed = response
                if named:
                    return ([], [])
                return changed
            loads = [load for _, load in columns]
            rows = [
                tuple([None if value is None else load(value) for load, value in zip(loads, row, strict=True)])
                for row in (() if isinstance(response, int) else response)
            ]
            if named:
                return ([name for name, _ in columns], rows)
            return rows

        return NativeStatement(request, answer)

    def _prepare(self, text: str, types: tuple[int, ...]) -> tuple[bytes, Columns]:
        """Returns the name of the prepared statement, and its columns' names and converters."""
        key = (text, types)
        if key not in self._prepared:
            if self._begin is not None:
                self._begin()
            name = b"dyno_sql%d" % len(self._prepared)
            check_result(self._pgconn.prepare(name, text.encode(), types), self._pgconn)
            described = check_result(self._pgconn.describe_prepared(name), self._pgconn)
            columns = [
                (described.fname(at).decode(), self._loader(described.ftype(at))) for at in range(described.nfields)
            ]
            self._prepared[key] = name, columns
        return self._prepared[key]

    def _loader(self, kind: int) -> Callable[[str], object]:
        """Returns a function that converts a value of the type from text."""
        from psycopg import pq

        if kind in TEXTS:
            return str
        load = self._transformer.get_loader(kind, pq.Format.TEXT).load
        return lambda value: load(value.encode())
