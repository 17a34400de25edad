"""The ports `records`, `arrays` and `series` on PostgreSQL, through psycopg, or libpq's own calls for records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dyno.contracts.cleanup import transaction
from dyno.contracts.model import Refused
from dyno.contracts.native import load_native
from dyno.contracts.native_load import NATIVE_CLIENT, Exchange, Rows
from dyno.engines.postgresql import Postgres
from dyno.suites.arrays import columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import BY_NAME, KEY, NAMES, Change, Chunk
from dyno.suites.records import sql as record_sql
from dyno.suites.records.port import INDEXES, Key, Record
from dyno.suites.records.sql import RecordTable, SqlReader, Statements, read_record
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import FIELDS, Array, SampleBatch
from dyno.suites.series.sql import SqlSeries

if TYPE_CHECKING:
    import numpy as np
    import psycopg
    from psycopg.pq.abc import PGconn

INDEXED = {name: f"reverse({name.removeprefix('rev_')})" for name in INDEXES}
STATEMENTS = Statements("%s")
INSERT = f"INSERT INTO records ({record_sql.FIELDS})"
REPLACE = "ON CONFLICT (name, location) DO UPDATE SET stub = excluded.stub"
KEYS = "SELECT * FROM unnest(%s::text[], %s::text[])"
ROWS = "SELECT * FROM unnest(%s::text[], %s::text[], %s::text[])"
# Each part of the statement sees the store as it was before the statement.
REPLACE_ONE = (
    f"WITH old AS (SELECT {record_sql.FIELDS} FROM records WHERE name = %s AND location = %s),"
    f" new AS ({INSERT} VALUES (%s, %s, %s) {REPLACE}) SELECT {record_sql.FIELDS} FROM old"
)
SENT_TOGETHER = 100
"""Number of statements that libpq sends before it reads results. More could fill the socket's buffers while the
server waits until its results are read."""


class Thin:
    """Runs prepared statements through libpq, without psycopg's adapting of values and state of a cursor."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._names: dict[str, bytes] = {}

    def execute(self, statement: str, values: Iterable[str | int] = ()) -> Result | Rows:
        name, pgconn = self._prepare_statement(statement), self._connection.pgconn
        return Result(check_result(pgconn.exec_prepared(name, [str(value).encode() for value in values]), pgconn))

    def execute_pipelined(self, statement: str, values: Sequence[Iterable[str]]) -> list[Result]:
        """Runs the statement once for each of `values`, in a pipeline."""
        name = self._prepare_statement(statement)
        pgconn = self._connection.pgconn
        results: list[Any] = []
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
        return [Result(check_result(each, pgconn)) for each in results]

    def _prepare_statement(self, statement: str) -> bytes:
        pgconn = self._connection.pgconn
        name = self._names.get(statement)
        if name is None:
            name = self._names[statement] = b"dyno%d" % len(self._names)
            numbered = statement
            for number in range(1, statement.count("%s") + 1):
                numbered = numbered.replace("%s", f"${number}", 1)
            check_result(pgconn.prepare(name, numbered.encode()), pgconn)
        return name


class Native(Thin):
    """Runs statements through libpq until native load takes the socket: see `Exchange`."""

    def __init__(self, connection: psycopg.Connection) -> None:
        super().__init__(connection)
        pgconn = connection.pgconn
        self._encode = load_native().postgresql
        self.exchange = Exchange("postgresql", pgconn.socket, bool(pgconn.ssl_in_use))

    def execute(self, statement: str, values: Iterable[str | int] = ()) -> Result | Rows:
        if not self.exchange.active:
            return super().execute(statement, values)
        return Rows(self.exchange.ask(self._encode(self._prepare_statement(statement), values)))


class Result:
    """libpq's result, with the cursor methods that a reader needs."""

    __slots__ = ("_result",)

    def __init__(self, result: Any) -> None:
        self._result = result

    @property
    def rowcount(self) -> int:
        return int(self._result.command_tuples or 0)

    def fetchone(self) -> tuple[str, ...] | None:
        if self._result.ntuples:
            return self._row(0)
        return None

    def fetchall(self) -> list[tuple[str, ...]]:
        return [self._row(number) for number in range(self._result.ntuples)]

    def _row(self, number: int) -> tuple[str, ...]:
        value = self._result.get_value
        return tuple([value(number, column).decode() for column in range(self._result.nfields)])


def check_result(result: Any, pgconn: PGconn) -> Any:
    if result.status not in (1, 2):
        # In a pipeline, only the result has the error message.
        raise RuntimeError((result.error_message or pgconn.error_message).decode(errors="replace").strip())
    return result


class Records(RecordTable):
    """The port `records`. Many records are inserted by COPY, and read and replaced by arrays."""

    batch = 1_000

    def __init__(self, engine: Postgres, indexed: bool) -> None:
        self._connection = connection = engine.connect()
        self._cursor = connection.cursor()
        self._execute = self._execute_prepared
        self._together: Callable[..., Iterable[Any]] = self._execute_pipelined
        if engine.options["client"] != "psycopg":
            thin = Native(connection) if engine.options["client"] == NATIVE_CLIENT else Thin(connection)
            self.exchange = getattr(thin, "exchange", None)
            self._execute, self._together = thin.execute, thin.execute_pipelined
        many = self._get_together if engine.options["many"] == "pipeline" else self.get_many
        self.current = SqlReader(self._execute, STATEMENTS, INDEXED, many)
        # The port requires the order of bytes, whatever the collation of the database is.
        columns = ", ".join(f'{name} text COLLATE "C" NOT NULL' for name in record_sql.FIELDS.split(", "))
        connection.execute(f"CREATE TABLE IF NOT EXISTS records ({columns}, PRIMARY KEY (name, location))")
        for name, what in INDEXED.items() if indexed else ():
            connection.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({what})")

    def _execute_prepared(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor:
        return self._cursor.execute(statement, values, prepare=True)

    def _execute_pipelined(self, statement: str, values: Sequence[Sequence[str]]) -> Iterator[psycopg.Cursor]:
        """Runs the statement once for each of `values`, which psycopg prepares and pipelines."""
        cursor = self._cursor
        cursor.executemany(statement, values, returning=True)
        yield cursor
        while cursor.nextset():
            yield cursor

    def _get_together(self, keys: list[Key]) -> dict[Key, Record]:
        rows = [result.fetchone() for result in self._together(STATEMENTS.get, keys)]
        return {(row[0], row[1]): read_record(row) for row in rows if row is not None}

    def insert_one(self, record: Record) -> None:
        self._execute(f"{INSERT} VALUES (%s, %s, %s)", _values(record))

    def insert_many(self, records: Iterable[Record]) -> None:
        with self._cursor.copy(f"COPY records ({record_sql.FIELDS}) FROM STDIN") as copy:
            write = copy.write_row
            for one in records:
                write(_values(one))

    def store(self, records: list[Record]) -> None:
        if len(records) == 1:
            self._execute(f"{INSERT} VALUES (%s, %s, %s) {REPLACE}", _values(records[0]))
        else:
            columns = [list(column) for column in zip(*map(_values, records), strict=True)]
            self._execute_prepared(f"{INSERT} {ROWS} {REPLACE}", columns)

    def replace_one(self, new: Record) -> Record | None:
        values = _values(new)
        row = self._execute(REPLACE_ONE, (*values[:2], *values)).fetchone()
        if row is None:
            return None
        return read_record(row)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        rows = self._execute_prepared(
            f"SELECT {record_sql.FIELDS} FROM records WHERE (name, location) IN ({KEYS})", _columns(keys)
        )
        return {(row[0], row[1]): read_record(row) for row in rows.fetchall()}

    def delete_one(self, key: Key) -> bool:
        return bool(self._execute(STATEMENTS.delete, key).rowcount == 1)

    def delete_many(self, keys: list[Key]) -> None:
        self._execute_prepared(f"DELETE FROM records WHERE (name, location) IN ({KEYS})", _columns(keys))


def _values(record: Record) -> tuple[str, str, str]:
    return record["name"], record["location"], record["stub"]


def _columns(keys: list[Key]) -> list[list[str]]:
    return [[name for name, _ in keys], [location for _, location in keys]]


# PostgreSQL has no unsigned types, and no type of one byte.
ARRAY_TYPES = {
    "id": "bigint NOT NULL",
    "double": "double precision NOT NULL",
    "flag": "smallint NOT NULL",
    "time": "timestamp NOT NULL",
    "text": "varchar(255) NOT NULL",
}
ARRAYS = {"id": "bigint[]", "double": "float8[]", "flag": "smallint[]"}
COPY = f"COPY {array_sql.TABLE} ({', '.join(NAMES)}) FROM STDIN (FORMAT csv)"
KEYED = f"SELECT relhasindex FROM pg_class WHERE oid = '{array_sql.TABLE}'::regclass"


class Arrays(array_sql.CursorArrays):
    """The port `arrays`. Chunks are copied in as CSV, and the primary key is created after the first load, as
    PostgreSQL's documentation advises ("Populating a Database")."""

    # Cast to double, because PostgreSQL aggregates integers in slow decimals.
    mean, deviation = "AVG({}::float8)", "STDDEV_POP({}::float8)"

    def __init__(self, engine: Postgres) -> None:
        if engine.options["client"] != "psycopg" or engine.options["many"] != "list":
            raise Refused("client=pq and many=pipeline are ways to single records: arrays are read by psycopg")
        connection = engine.connect()
        # Binary results save formatting and parsing.
        self._cursor = connection.cursor(binary=True)
        super().__init__(connection, self._cursor.execute)
        self._execute(array_sql.create(ARRAY_TYPES, key=False))

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        with transaction(self._execute):
            yield self._copy
            (keyed,) = self._execute(KEYED).fetchone()
            if not keyed:
                self._execute(f"ALTER TABLE {array_sql.TABLE} ADD PRIMARY KEY ({KEY})")

    def _copy(self, chunk: Chunk) -> None:
        with self._cursor.copy(COPY) as copy:
            copy.write(memoryview(columns.csv(chunk)))

    def update(self, change: Change) -> None:
        names = (KEY, *change.values)
        lists = [array_sql.keys(change), *(values.tolist() for values in change.values.values())]
        arrays = ", ".join(f"%s::{ARRAYS[BY_NAME[name].sql]}" for name in names)
        self._execute(
            f"UPDATE {array_sql.TABLE} SET {', '.join(f'{name} = chunk.{name}' for name in change.values)} "
            f"FROM unnest({arrays}) AS chunk ({', '.join(names)}) WHERE {array_sql.TABLE}.{KEY} = chunk.{KEY}",
            lists,
        )


SERIES_TYPES = series_sql.Types(name="text", id="integer", ts="bigint", val="double precision", small="smallint")
HOUR = 3_600_000_000_000
BATCH = "batch"
COPY_IN = f"COPY {BATCH} FROM STDIN (FORMAT binary)"
COPY_OUT = f"COPY (SELECT pv, {series_sql.FIELDS} FROM {series_sql.TABLE}) TO STDOUT (FORMAT binary)"
INSERT_BATCH = f"INSERT INTO {series_sql.TABLE} SELECT * FROM {BATCH}"
UPSERT = (
    f"{INSERT_BATCH} ON CONFLICT (pv, ts) "
    "DO UPDATE SET val = excluded.val, stat = excluded.stat, sevr = excluded.sevr"
)
DELETE = (
    f"DELETE FROM {series_sql.TABLE} AS s USING {BATCH} AS b "
    "WHERE s.ts BETWEEN %s AND %s AND s.pv = b.pv AND s.ts = b.ts"
)
LATEST_BY_SORTING = f"SELECT DISTINCT ON (pv) pv, {series_sql.FIELDS} FROM {series_sql.TABLE} ORDER BY pv, ts DESC"
# Header and trailer of COPY's binary format: a signature, flags and the length of an extension; and the end mark.
# Source: PostgreSQL documentation, "COPY", "File Format".
HEADER, TRAILER = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
PIECE = 65_536
"""Number of rows that are decoded together when all samples are read."""


class Series(SqlSeries):
    """The port `series`. Batches are copied in, and all samples copied out, in PostgreSQL's binary format.

    A batch is copied into a temporary table and inserted from there. With the index `btree`, whose key is variable
    and time, ON CONFLICT replaces existing samples. With the index `brin`, which stores the range of times in each
    range of pages, existing samples are deleted first. With `partition_hours`, each partition has that many hours.
    """

    mark = "%s"

    def __init__(self, engine: Postgres, names: Sequence[str]) -> None:
        if engine.options["client"] != "psycopg" or engine.options["many"] != "list":
            raise Refused("client=pq and many=pipeline are ways to single records: series are read by psycopg")
        self._connection = engine.connect()
        # Binary results save formatting and parsing.
        self._cursor = self._connection.cursor(binary=True)
        self._execute = self._cursor.execute
        self._keyed = engine.options["index"] == "btree"
        self._hours = int(engine.options["partition_hours"])
        self._partitions = set[int]()
        self._execute(series_sql.create_names(SERIES_TYPES))
        partitioned = ""
        if self._hours:
            partitioned = "PARTITION BY RANGE (ts)"
        self._execute(series_sql.create(SERIES_TYPES, partitioned, "PRIMARY KEY (pv, ts)" if self._keyed else ""))
        if not self._keyed:
            self.last = LATEST_BY_SORTING
            self._execute(f"CREATE INDEX IF NOT EXISTS by_time ON {series_sql.TABLE} USING brin (ts)")
        self._execute(f"CREATE TEMPORARY TABLE {BATCH} (LIKE {series_sql.TABLE}) ON COMMIT DELETE ROWS")
        super().__init__(self.add_names(names))

    def insert(self, batch: SampleBatch) -> None:
        with transaction(self._execute):
            self._create_partitions(batch.ts)
            with self._cursor.copy(COPY_IN) as copy:
                copy.write(_pack_rows(self.with_store_ids(batch)))
            if self._keyed:
                self._execute(UPSERT)
            else:
                self._execute(DELETE, (int(batch.ts.min()), int(batch.ts.max())))
                self._execute(INSERT_BATCH)

    def _create_partitions(self, ts: Array) -> None:
        """Creates the partitions of these times, except those known to exist."""
        import numpy as np

        if not self._hours:
            return
        length = self._hours * HOUR
        for number in set(np.unique(ts // length).tolist()) - self._partitions:
            partition = f"{series_sql.TABLE}_{number} PARTITION OF {series_sql.TABLE}"
            bounds = f"FROM ({number * length}) TO ({(number + 1) * length})"
            self._execute(f"CREATE TABLE IF NOT EXISTS {partition} FOR VALUES {bounds}")
            self._partitions.add(number)

    def all(self) -> Iterator[SampleBatch]:
        import numpy as np

        def unpack_rows(rows: bytes) -> SampleBatch:
            array = np.frombuffer(rows, _row())
            return self.batch([array[name] for name in FIELDS])

        with self._cursor.copy(COPY_OUT) as copy:
            pieces = [bytes(next(iter(copy))).removeprefix(HEADER)]
            for piece in copy:
                pieces.append(bytes(piece))
                if len(pieces) == PIECE:
                    yield unpack_rows(b"".join(pieces))
                    pieces.clear()
            if rest := b"".join(pieces).removesuffix(TRAILER):
                yield unpack_rows(rest)


def _row() -> np.dtype[np.void]:
    """Returns the NumPy type of a row in COPY's format: the number of fields, and each one's length and value."""
    import numpy as np

    kinds = dict(zip(FIELDS, (">i4", ">i8", ">f8", ">i2", ">i2"), strict=True))
    return np.dtype(
        [
            ("fields", ">i2"),
            *(part for name, kind in kinds.items() for part in ((f"{name}_length", ">i4"), (name, kind))),
        ]
    )


def _pack_rows(batch: SampleBatch) -> bytes:
    import numpy as np

    rows = np.empty(len(batch.ts), _row())
    rows["fields"] = len(FIELDS)
    for name, values in zip(FIELDS, batch, strict=True):
        rows[f"{name}_length"] = rows.dtype[name].itemsize
        rows[name] = values
    return HEADER + rows.tobytes() + TRAILER
