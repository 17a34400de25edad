"""The port `series` on PostgreSQL. Batches are copied in, and all samples copied out, in its binary format.

A batch is copied into a temporary table and inserted from there. With the index `btree`, whose key is variable and
time, ON CONFLICT replaces existing samples. With the index `brin`, which stores the range of times in each range of
pages, existing samples are deleted first. With `partition_hours`, each partition has that many hours.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dyno.contracts.cleanup import transaction
from dyno.contracts.model import Refused
from dyno.engines.postgresql import Postgres
from dyno.suites.series import samples, sql
from dyno.suites.series.port import FIELDS, Array, SampleBatch
from dyno.suites.series.sql import SqlSeries

TYPES = sql.Types(name="text", id="integer", ts="bigint", val="double precision", small="smallint")
HOUR = 3_600_000_000_000
BATCH = "batch"
COPY_IN = f"COPY {BATCH} FROM STDIN (FORMAT binary)"
COPY_OUT = f"COPY (SELECT pv, {sql.FIELDS} FROM {sql.TABLE}) TO STDOUT (FORMAT binary)"
INSERT = f"INSERT INTO {sql.TABLE} SELECT * FROM {BATCH}"
UPSERT = f"{INSERT} ON CONFLICT (pv, ts) DO UPDATE SET val = excluded.val, stat = excluded.stat, sevr = excluded.sevr"
DELETE = (
    f"DELETE FROM {sql.TABLE} AS s USING {BATCH} AS b WHERE s.ts BETWEEN %s AND %s AND s.pv = b.pv AND s.ts = b.ts"
)
LATEST_BY_SORTING = f"SELECT DISTINCT ON (pv) pv, {sql.FIELDS} FROM {sql.TABLE} ORDER BY pv, ts DESC"
# Header and trailer of COPY's binary format: a signature, flags and the length of an extension; and the end mark.
# Source: PostgreSQL documentation, "COPY", "File Format".
HEADER, TRAILER = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
PIECE = 65_536
"""Number of rows that are decoded together when all samples are read."""


class Series(SqlSeries):
    """See `dyno.suites.series.port.Series`."""

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
        if not self._keyed:
            self.last = LATEST_BY_SORTING
        with transaction(self._execute):
            self._create()
            known = dict(self._execute(sql.NAMES).fetchall())
            new = sql.missing_names(names, known)
            self._cursor.executemany(sql.add_name("%s"), new)
        super().__init__(samples.VariableIds(names, [*known.items(), *new]))

    def _create(self) -> None:
        self._execute(sql.create_names(TYPES))
        partitioned = "PARTITION BY RANGE (ts)" if self._hours else ""
        self._execute(sql.create(TYPES, partitioned, "PRIMARY KEY (pv, ts)" if self._keyed else ""))
        if not self._keyed:
            self._execute(f"CREATE INDEX IF NOT EXISTS by_time ON {sql.TABLE} USING brin (ts)")
        self._execute(f"CREATE TEMPORARY TABLE {BATCH} (LIKE {sql.TABLE}) ON COMMIT DELETE ROWS")

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
            bounds = f"FROM ({number * length}) TO ({(number + 1) * length})"
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {sql.TABLE}_{number} PARTITION OF {sql.TABLE} FOR VALUES {bounds}"
            )
            self._partitions.add(number)

    def columns(self, statement: str, values: Sequence[Any], count: int) -> Sequence[Any]:
        return samples.columns_of(self._execute(statement, values).fetchall(), count)

    def all(self) -> Iterator[SampleBatch]:
        with self._cursor.copy(COPY_OUT) as copy:
            pieces = [bytes(next(iter(copy))).removeprefix(HEADER)]
            for piece in copy:
                pieces.append(bytes(piece))
                if len(pieces) == PIECE:
                    yield self.batch(_unpacked(b"".join(pieces)))
                    pieces.clear()
            if rest := b"".join(pieces).removesuffix(TRAILER):
                yield self.batch(_unpacked(rest))

    def close(self) -> None:
        self._connection.close()


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


def _unpacked(rows: bytes) -> list[Array]:
    import numpy as np

    array = np.frombuffer(rows, _row())
    return [array[name] for name in FIELDS]
