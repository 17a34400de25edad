"""The port `records` on PostgreSQL, through psycopg or through libpq's own calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dyno.contracts.native import loaded
from dyno.contracts.native_load import NATIVE_CLIENT, Exchange, Rows
from dyno.engines.postgresql import Postgres
from dyno.suites.records.port import INDEXES, Key, Record
from dyno.suites.records.sql import FIELDS, RecordTable, SqlReader, Statements, record

INDEXED = {name: f"reverse({name.removeprefix('rev_')})" for name in INDEXES}
STATEMENTS = Statements("%s")
INSERT = f"INSERT INTO records ({FIELDS})"
REPLACE = "ON CONFLICT (name, location) DO UPDATE SET stub = excluded.stub"
KEYS = "SELECT * FROM unnest(%s::text[], %s::text[])"
ROWS = "SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])"
# Each part of the statement sees the store as it was before the statement.
REPLACE_ONE = (
    f"WITH old AS (SELECT {FIELDS} FROM records WHERE name = %s AND location = %s),"
    f" new AS ({INSERT} VALUES (%s, %s, %s) {REPLACE}) SELECT {FIELDS} FROM old"
)
SENT_TOGETHER = 100
"""Number of statements that libpq sends before it reads results. More could fill the socket's buffers while the
server waits until its results are read."""


class Thin:
    """Runs prepared statements through libpq. That saves psycopg's work for each statement: adapting values, and a
    cursor with its state."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._names: dict[str, bytes] = {}

    def execute(self, statement: str, values: Iterable[str | int] = ()) -> Any:
        name, pgconn = self._prepared(statement), self._connection.pgconn
        return Result(_checked(pgconn.exec_prepared(name, [str(value).encode() for value in values]), pgconn))

    def pipelined(self, statement: str, values: Sequence[Iterable[str]]) -> list[Result]:
        """Runs the statement once for each of `values`, in a pipeline."""
        name, pgconn, results = self._prepared(statement), self._connection.pgconn, []
        pgconn.enter_pipeline_mode()
        for at in range(0, len(values), SENT_TOGETHER):
            some = values[at : at + SENT_TOGETHER]
            for each in some:
                pgconn.send_query_prepared(name, [value.encode() for value in each])
            pgconn.pipeline_sync()
            for _ in some:
                results.append(pgconn.get_result())
                # Read the NULL that ends the statement's results.
                pgconn.get_result()
            # Read the result of the synchronization.
            pgconn.get_result()
        pgconn.exit_pipeline_mode()
        return [Result(_checked(each, pgconn)) for each in results]

    def _prepared(self, statement: str) -> bytes:
        pgconn = self._connection.pgconn
        name = self._names.get(statement)
        if name is None:
            name = self._names[statement] = b"dyno%d" % len(self._names)
            numbered = statement
            for number in range(1, statement.count("%s") + 1):
                numbered = numbered.replace("%s", f"${number}", 1)
            _checked(pgconn.prepare(name, numbered.encode()), pgconn)
        return name


class Native(Thin):
    """Runs statements through libpq until native load takes the socket: see `Exchange`."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        pgconn = connection.pgconn
        self._encode = loaded().postgresql
        self.exchange = Exchange("postgresql", pgconn.socket, bool(pgconn.ssl_in_use))

    def execute(self, statement: str, values: Iterable[str | int] = ()) -> Any:
        if not self.exchange.active:
            return super().execute(statement, values)
        return Rows(self.exchange.ask(self._encode(self._prepared(statement), values)))


class Result:
    """libpq's result, with the cursor methods that a reader needs."""

    __slots__ = ("_result",)

    def __init__(self, result: Any) -> None:
        self._result = result

    @property
    def rowcount(self) -> int:
        return int(self._result.command_tuples or 0)

    def fetchone(self) -> tuple[str, ...] | None:
        return self._row(0) if self._result.ntuples else None

    def fetchall(self) -> list[tuple[str, ...]]:
        return [self._row(number) for number in range(self._result.ntuples)]

    def _row(self, number: int) -> tuple[str, ...]:
        value = self._result.get_value
        return tuple([value(number, column).decode() for column in range(self._result.nfields)])


def _checked(result: Any, pgconn: Any) -> Any:
    if result.status not in (1, 2):
        # In a pipeline, only the result has the error message.
        raise RuntimeError((result.error_message or pgconn.error_message).decode(errors="replace").strip())
    return result


class Table(RecordTable):
    """The port `records`. Many records are inserted by COPY, and read and replaced by statements with arrays as
    values."""

    batch = 1_000

    def __init__(self, engine: Postgres, indexed: bool) -> None:
        self._connection = connection = engine.connect()
        self._cursor = connection.cursor()
        self._execute = self._prepared
        self._together: Callable[..., Iterable[Any]] = self._pipelined
        if engine.options["client"] != "psycopg":
            thin = Native(connection) if engine.options["client"] == NATIVE_CLIENT else Thin(connection)
            self.exchange = getattr(thin, "exchange", None)
            self._execute, self._together = thin.execute, thin.pipelined
        many = self._get_together if engine.options["many"] == "pipeline" else self.get_many
        self.current = SqlReader(self._execute, STATEMENTS, INDEXED, many)
        # The port requires the order of bytes, whatever the collation of the database is.
        columns = ", ".join(f'{name} text COLLATE "C" NOT NULL' for name in FIELDS.split(", "))
        connection.execute(f"CREATE TABLE IF NOT EXISTS records ({columns}, PRIMARY KEY (name, location))")
        for name, what in INDEXED.items() if indexed else ():
            connection.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({what})")

    def _prepared(self, statement: str, values: Any = ()) -> Any:
        return self._cursor.execute(statement, values, prepare=True)

    def _pipelined(self, statement: str, values: Sequence[Iterable[str]]) -> Iterator[Any]:
        """Runs the statement once for each of `values`, which psycopg prepares and pipelines."""
        cursor = self._cursor
        cursor.executemany(statement, values, returning=True)
        yield cursor
        while cursor.nextset():
            yield cursor

    def _get_together(self, keys: list[Key]) -> dict[Key, Record]:
        rows = [result.fetchone() for result in self._together(STATEMENTS.get, keys)]
        return {(row[0], row[1]): record(row) for row in rows if row is not None}

    def insert_one(self, record: Record) -> None:
        self._execute(f"{INSERT} VALUES (%s, %s, %s)", _values(record))

    def insert_many(self, records: Iterable[Record]) -> None:
        with self._cursor.copy(f"COPY records ({FIELDS}) FROM STDIN") as copy:
            write = copy.write_row
            for one in records:
                write(_values(one))

    def store(self, records: list[Record]) -> None:
        if len(records) == 1:
            self._execute(f"{INSERT} VALUES (%s, %s, %s) {REPLACE}", _values(records[0]))
        else:
            columns = [list(column) for column in zip(*map(_values, records), strict=True)]
            self._prepared(f"{INSERT} {ROWS} {REPLACE}", columns)

    def replace_one(self, new: Record) -> Record | None:
        values = _values(new)
        row = self._execute(REPLACE_ONE, (*values[:2], *values)).fetchone()
        return None if row is None else record(row)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        rows = self._prepared(f"SELECT {FIELDS} FROM records WHERE (name, location) IN ({KEYS})", _columns(keys))
        return {(row[0], row[1]): record(row) for row in rows.fetchall()}

    def delete_one(self, key: Key) -> bool:
        return bool(self._execute(STATEMENTS.delete, key).rowcount == 1)

    def delete_many(self, keys: list[Key]) -> None:
        self._prepared(f"DELETE FROM records WHERE (name, location) IN ({KEYS})", _columns(keys))


def _values(record: Record) -> tuple[str, str, str]:
    return record["name"], record["location"], record["stub"]


def _columns(keys: list[Key]) -> list[list[str]]:
    return [[name for name, _ in keys], [location for _, location in keys]]
