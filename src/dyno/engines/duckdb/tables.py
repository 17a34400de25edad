"""DuckDB through the ports `records`, `arrays` and `series`.

DuckDB's documentation says that indexes find rows by one column only. So the table of records has a third column with
both parts of the key as one string, which is its primary key. Arrays and series are passed as Arrow tables, whose
numbers are not copied, and have no index, as the documentation advises for bulk loads: rows are nearly in the order
of their numbers or times, so the minimum and maximum of each row group suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dyno.contracts.cleanup import finally_, transaction
from dyno.engines.duckdb import DuckDB
from dyno.suites.arrays import columns as array_columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk
from dyno.suites.records import sql as record_sql
from dyno.suites.records.port import INDEXES, Key, Record, identity
from dyno.suites.records.sql import RecordTable, SqlReader, Statements, batches, read_record
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import FIELDS, SampleBatch

if TYPE_CHECKING:
    import duckdb
    import pandas

# Rows per statement. One statement for each row would be far slower.
BATCH = 20_000
VERBS = {"insert": "INSERT", "upsert": "INSERT OR REPLACE"}
"""SQL for the actions of an appender."""

RECORDS = f"SELECT {record_sql.FIELDS} FROM records"
# The row comparison defines the result. The additional `name >= ?` lets DuckDB skip whole row groups.
STATEMENTS = Statements()
STATEMENTS.scan = f"{RECORDS} WHERE name >= $1 AND (name, location) >= ($1, $2) ORDER BY name, location LIMIT $3"
REQUESTED = "(SELECT unnest($1) AS requested)"
GET_MANY = f"{RECORDS} JOIN {REQUESTED} ON key = requested"
DELETE_MANY = f"DELETE FROM records USING {REQUESTED} WHERE key = requested"


class TableReader(SqlReader):
    """Reads through one cursor, inside or outside of a transaction, by statements that are parsed once."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, many: Callable[[list[Key]], dict[Key, Record]]) -> None:
        self._cursor = cursor
        super().__init__(cursor.execute, STATEMENTS)
        self._many_keys = many
        self._get = self.prepare_statement(f"{RECORDS} WHERE key = ?")

    def prepare_statement(self, statement: str) -> duckdb.Statement:
        return parse_statement(self._cursor, statement)

    def get(self, key: Key) -> Record | None:
        row = self._cursor.execute(self._get, (identity(*key),)).fetchone()
        if row is None:
            return None
        return read_record(row)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        if len(keys) == 1:
            return [self.get(keys[0])]
        return list(map(self._many_keys(list(keys)).get, keys))


class Records(RecordTable):
    batch = BATCH

    def __init__(self, engine: DuckDB, indexed: bool) -> None:
        self._connection = cursor = engine.db.cursor()
        self._execute = cursor.execute
        if indexed:
            self._indexes = tuple(INDEXES.items())
        else:
            self._indexes = ()
        names = ["name", "location", "stub", *(name for name, _ in self._indexes)]
        columns = ", ".join(f"{name} VARCHAR NOT NULL" for name in names)
        self._execute(f"CREATE TABLE IF NOT EXISTS records (key VARCHAR PRIMARY KEY, {columns})")
        for name, _ in self._indexes:
            self._execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({name})")
        self.current = TableReader(cursor, self.get_many)
        values = ", ".join("?" * (len(names) + 1))
        self._one = {
            action: parse_statement(cursor, f"{verb} INTO records VALUES ({values})")
            for action, verb in VERBS.items()
        }
        self._lists = f"INTO records SELECT {', '.join(f'unnest(${n + 1})' for n in range(len(names) + 1))}"
        self._delete = parse_statement(cursor, "DELETE FROM records WHERE key = ?")
        # DuckDB's bulk loader, which its Python client has since version 2.0.
        self._appender = getattr(cursor, "appender", None)

    def _row(self, record: Record) -> tuple[str, ...]:
        name, location = record["name"], record["location"]
        indexed = (value(record) for _, value in self._indexes)
        return (identity(name, location), name, location, record["stub"], *indexed)

    def _write(self, action: str, records: list[Record]) -> None:
        rows = list(map(self._row, records))
        if len(rows) == 1:
            self._execute(self._one[action], rows[0])
        elif self._appender is None:
            self._execute(f"{VERBS[action]} {self._lists}", list(map(list, zip(*rows, strict=True))))
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
        rows = self._execute(GET_MANY, [[identity(*key) for key in keys]]).fetchall()
        return {(row[0], row[1]): read_record(row) for row in rows}

    def delete_one(self, key: Key) -> bool:
        return bool(self._execute(self._delete, (identity(*key),)).fetchone()[0])

    def delete_many(self, keys: list[Key]) -> None:
        self._execute(DELETE_MANY, [[identity(*key) for key in keys]])


def parse_statement(cursor: duckdb.DuckDBPyConnection, statement: str) -> duckdb.Statement:
    """Returns a parsed statement. DuckDB plans it at each execution, as it does for PREPARE."""
    (result,) = cursor.extract_statements(statement)
    return result


ARRAY_TYPES = {"id": "UBIGINT", "double": "DOUBLE", "flag": "TINYINT", "time": "TIMESTAMP_S", "text": "VARCHAR"}
CHUNK = "chunk"
"""Name of the Arrow table in statements."""


class Arrays(array_sql.SqlArrays):
    def __init__(self, engine: DuckDB) -> None:
        self._cursor = engine.db.cursor()
        self._execute = self._cursor.execute
        self._execute(array_sql.create(ARRAY_TYPES, key=False))
        self._slice = array_sql.slice_of("?")

    def _execute_with(self, statement: str, chunk: Chunk) -> None:
        self._cursor.register(CHUNK, array_columns.table(chunk))
        with finally_(lambda: self._cursor.unregister(CHUNK)):
            # A statement ends only when its result is fetched.
            self._execute(statement).fetchall()

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        insert = f"INSERT INTO {array_sql.TABLE} SELECT {', '.join(NAMES)} FROM {CHUNK}"
        with transaction(self._execute):
            yield lambda chunk: self._execute_with(insert, chunk)

    def row(self, statement: str) -> Sequence[Any]:
        # An unfetched result would block the next statement.
        return self._execute(statement).fetchall()[0]

    def slice(self, rows: range) -> Chunk:
        return array_columns.of_table(
            self._cursor.sql(self._slice, params=list(array_sql.numbers(rows))).to_arrow_table()
        )

    def frame(self, names: Sequence[str]) -> pandas.DataFrame:
        return self._execute(array_sql.frame_of(names)).df()

    def update(self, change: Change) -> None:
        import numpy as np

        values = ", ".join(f"{name} = {CHUNK}.{name}" for name in change.values)
        keys = np.arange(change.start + 1, change.stop + 1, dtype=array_columns.dtype(KEY))
        # With the bounds DuckDB skips most row groups.
        statement = (
            f"UPDATE {array_sql.TABLE} SET {values} FROM {CHUNK} WHERE {array_sql.TABLE}.{KEY} = {CHUNK}.{KEY} "
            f"AND {array_sql.TABLE}.{KEY} BETWEEN {keys[0]} AND {keys[-1]}"
        )
        self._execute_with(statement, {KEY: keys, **change.values})

    def close(self) -> None:
        self._cursor.close()


SERIES_TYPES = series_sql.Types(name="VARCHAR", id="INTEGER", ts="BIGINT", val="DOUBLE", small="SMALLINT")
ROWS = "batch"
"""Name of the Arrow table in statements."""
INSERT_ROWS = f"INSERT INTO {series_sql.TABLE} SELECT {', '.join(FIELDS)} FROM {ROWS}"
DELETE_REPEATED = (
    f"DELETE FROM {series_sql.TABLE} AS s USING {ROWS} AS b "
    "WHERE s.ts BETWEEN {first} AND {last} AND s.pv = b.pv AND s.ts = b.ts"
)


class Series(series_sql.SqlSeries):
    """The port `series`. An insertion first deletes older versions, reading only row groups of the batch's times."""

    begins, last = "ts // {bucket} * {bucket}", series_sql.LATEST_BY_GROUPS

    def __init__(self, engine: DuckDB, names: Sequence[str]) -> None:
        self._connection = engine.db.cursor()
        self._execute = self._connection.execute
        self._execute(series_sql.create_names(SERIES_TYPES))
        self._execute(series_sql.create(SERIES_TYPES, key=""))
        super().__init__(self.add_names(names))

    def insert(self, batch: SampleBatch) -> None:
        import pyarrow

        self._connection.register(ROWS, pyarrow.table(self.with_store_ids(batch)._asdict()))
        with finally_(lambda: self._connection.unregister(ROWS)), transaction(self._execute):
            # A statement ends only when its result is fetched.
            self._execute(DELETE_REPEATED.format(first=batch.ts.min(), last=batch.ts.max())).fetchall()
            self._execute(INSERT_ROWS).fetchall()

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return list(self._execute(statement, values).fetchnumpy().values())

    def all(self) -> Iterator[SampleBatch]:
        for piece in self._connection.sql(series_sql.ALL).to_arrow_reader(series_sql.ROWS):
            yield self.batch([column.to_numpy() for column in piece.columns])
