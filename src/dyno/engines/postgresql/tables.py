"""The ports `arrays` and `series` on PostgreSQL."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.contracts.model import Refused
from dyno.engines.postgresql import Postgres
from dyno.suites.arrays import columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import BY_NAME, KEY, NAMES, Change, Chunk
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import FIELDS, Array, SampleBatch
from dyno.suites.series.sql import SqlSeries

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
INSERT = f"INSERT INTO {series_sql.TABLE} SELECT * FROM {BATCH}"
UPSERT = f"{INSERT} ON CONFLICT (pv, ts) DO UPDATE SET val = excluded.val, stat = excluded.stat, sevr = excluded.sevr"
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
        partitioned = "PARTITION BY RANGE (ts)" if self._hours else ""
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
                copy.write(_packed(self.stored(batch)))
            if self._keyed:
                self._execute(UPSERT)
            else:
                self._execute(DELETE, (int(batch.ts.min()), int(batch.ts.max())))
                self._execute(INSERT)

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

        def unpacked(rows: bytes) -> SampleBatch:
            array = np.frombuffer(rows, _row())
            return self.batch([array[name] for name in FIELDS])

        with self._cursor.copy(COPY_OUT) as copy:
            pieces = [bytes(next(iter(copy))).removeprefix(HEADER)]
            for piece in copy:
                pieces.append(bytes(piece))
                if len(pieces) == PIECE:
                    yield unpacked(b"".join(pieces))
                    pieces.clear()
            if rest := b"".join(pieces).removesuffix(TRAILER):
                yield unpacked(rest)


def _row() -> Any:
    """Returns the NumPy type of a row in COPY's format: the number of fields, and the length and value of each field,
    big-endian."""
    import numpy as np

    kinds = dict(zip(FIELDS, (">i4", ">i8", ">f8", ">i2", ">i2"), strict=True))
    return np.dtype(
        [
            ("fields", ">i2"),
            *(part for name, kind in kinds.items() for part in ((f"{name}_length", ">i4"), (name, kind))),
        ]
    )


def _packed(batch: SampleBatch) -> bytes:
    import numpy as np

    rows = np.empty(len(batch.ts), _row())
    rows["fields"] = len(FIELDS)
    for name, values in zip(FIELDS, batch, strict=True):
        rows[f"{name}_length"] = rows.dtype[name].itemsize
        rows[name] = values
    return HEADER + rows.tobytes() + TRAILER
