"""The port `arrays` on PostgreSQL. Chunks are copied in as CSV, and the primary key is created after the first load,
as PostgreSQL's documentation advises ("Populating a Database")."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dyno.contracts.cleanup import transaction
from dyno.contracts.model import Refused
from dyno.engines.postgresql import Postgres
from dyno.suites.arrays import columns, sql
from dyno.suites.arrays.port import BY_NAME, KEY, NAMES, Change, Chunk

# PostgreSQL has no unsigned types, and no type of one byte.
TYPES = {
    "id": "bigint NOT NULL",
    "double": "double precision NOT NULL",
    "flag": "smallint NOT NULL",
    "time": "timestamp NOT NULL",
    "text": "varchar(255) NOT NULL",
}
ARRAYS = {"id": "bigint[]", "double": "float8[]", "flag": "smallint[]"}
COPY = f"COPY {sql.TABLE} ({', '.join(NAMES)}) FROM STDIN (FORMAT csv)"
KEYED = f"SELECT relhasindex FROM pg_class WHERE oid = '{sql.TABLE}'::regclass"


class Arrays(sql.CursorArrays):
    """See `dyno.suites.arrays.port.Arrays`."""

    # Cast to double, because PostgreSQL aggregates integers in slow decimals.
    mean, deviation = "AVG({}::float8)", "STDDEV_POP({}::float8)"

    def __init__(self, engine: Postgres) -> None:
        if engine.options["client"] != "psycopg" or engine.options["many"] != "list":
            raise Refused("client=pq and many=pipeline are ways to single records: arrays are read by psycopg")
        connection = engine.connect()
        # Binary results save formatting and parsing.
        self._cursor = connection.cursor(binary=True)
        super().__init__(connection, self._cursor.execute)
        self._execute(sql.create(TYPES, key=False))

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        with transaction(self._execute):
            yield self._copy
            (keyed,) = self._execute(KEYED).fetchone()
            if not keyed:
                self._execute(f"ALTER TABLE {sql.TABLE} ADD PRIMARY KEY ({KEY})")

    def _copy(self, chunk: Chunk) -> None:
        with self._cursor.copy(COPY) as copy:
            copy.write(memoryview(columns.csv(chunk)))

    def update(self, change: Change) -> None:
        names = (KEY, *change.values)
        lists = [sql.keys(change), *(values.tolist() for values in change.values.values())]
        arrays = ", ".join(f"%s::{ARRAYS[BY_NAME[name].sql]}" for name in names)
        self._execute(
            f"UPDATE {sql.TABLE} SET {', '.join(f'{name} = chunk.{name}' for name in change.values)} "
            f"FROM unnest({arrays}) AS chunk ({', '.join(names)}) WHERE {sql.TABLE}.{KEY} = chunk.{KEY}",
            lists,
        )
