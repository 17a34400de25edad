"""The ports `records`, `arrays`, `series` and `transactions` on MariaDB and MySQL. Rows are loaded by LOAD DATA."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

from dyno.contracts.cleanup import transaction
from dyno.contracts.model import Refused
from dyno.engines.mysql.client import Result, load
from dyno.engines.mysql.engines import InnoDB
from dyno.engines.sysbench import DatabaseTests, config_line
from dyno.suites.arrays import columns
from dyno.suites.arrays import sql as array_sql
from dyno.suites.arrays.port import KEY, NAMES, Change, Chunk
from dyno.suites.records import sql as record_sql
from dyno.suites.records.port import INDEXES, Key, Record
from dyno.suites.records.sql import RecordTable, SqlReader, Statements, read_record
from dyno.suites.series import samples
from dyno.suites.series import sql as series_sql
from dyno.suites.series.port import FIELDS, SampleBatch
from dyno.suites.series.sql import SqlSeries

BATCH = 1_000
STATEMENTS = Statements("%s")
SCAN = (
    f"SELECT {record_sql.FIELDS} FROM records WHERE name = %s AND location >= %s OR name > %s "
    "ORDER BY name, location LIMIT %s"
)
"""The condition is equivalent to `(name, location) >= (…)`, for which both servers would read the table from its
start. In this form it is a range of the primary key."""
INSERT = f"INSERT INTO records ({record_sql.FIELDS}) VALUES"
REPLACE = "ON DUPLICATE KEY UPDATE stub = VALUES(stub)"
PUT = Path(__file__).with_name("put_record.sql")
"""Procedure that replaces a record and returns the old one, in one round trip instead of four."""
ROUTINES = "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = DATABASE()"
BINARY = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin")
"""MariaDB's and MySQL's collation that compares the bytes of UTF-8, including trailing blanks."""
ESCAPED_BYTES = 8
"""Maximum number of bytes of a character in a statement: four in UTF-8, each of which may be escaped."""


class Reader(SqlReader):
    """See `SqlReader`. The scan has a different condition."""

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        execute = self._execute

        def scan(key: Key) -> list[Record]:
            name, location = key
            return [read_record(row) for row in execute(SCAN, (name, location, name, count)).fetchall()]

        return scan


class Records(RecordTable):
    """The port `records`. Many records are inserted by one statement, and read and deleted by a list of keys."""

    batch = BATCH

    def __init__(self, engine: InnoDB, indexed: bool) -> None:
        self._connection = engine.connect()
        self.exchange = getattr(self._connection, "exchange", None)
        self._execute = execute = self._connection.execute
        self.current = Reader(execute, STATEMENTS, many=self.get_many)
        (packet,) = execute("SELECT @@max_allowed_packet").fetchone()
        self._characters = int(packet) // ESCAPED_BYTES
        known = dict(execute("SELECT collation_name, id FROM information_schema.collations").fetchall())
        if (collation := next((name for name in BINARY if name in known), None)) is None:
            raise Refused(f"the server is too old: it has none of the collations {', '.join(BINARY)}")
        order = f"CHARACTER SET utf8mb4 COLLATE {collation}"
        text, long = f"VARCHAR(255) {order}", f"LONGTEXT {order}"
        columns = (
            f"name {text} NOT NULL, location {text} NOT NULL, stub {long} NOT NULL, PRIMARY KEY (name, location)"
        )
        # Use virtual columns, which are stored in the index only, because MariaDB can't index an expression.
        for index in INDEXES if indexed else ():
            columns += f", {index} {text} AS (REVERSE({index.removeprefix('rev_')})) VIRTUAL"
            columns += f", INDEX by_{index} ({index})"
        execute(f"CREATE TABLE IF NOT EXISTS records ({columns}) ENGINE=InnoDB")
        # Not all versions know IF NOT EXISTS for procedures. No other client creates this store at the same time.
        if execute(ROUTINES).fetchone()[0] == 0:
            execute(PUT.read_text().format(text=text, long=long))

    def insert_one(self, record: Record) -> None:
        self._execute(f"{INSERT} (%s, %s, %s)", _values([record]))

    def insert_many(self, records: Iterable[Record]) -> None:
        for some in self._split_into_batches(records):
            self._execute(f"{INSERT} {_rows(len(some), 3)}", _values(some))

    def store(self, records: list[Record]) -> None:
        for some in self._split_into_batches(records):
            self._execute(f"{INSERT} {_rows(len(some), 3)} {REPLACE}", _values(some))

    def _split_into_batches(self, records: Iterable[Record]) -> Iterator[list[Record]]:
        """Yields batches that are small enough for one statement."""
        some, characters = list[Record](), 0
        for each in records:
            size = len(each["name"]) + len(each["location"]) + len(each["stub"])
            if some and (len(some) == BATCH or characters + size > self._characters):
                yield some
                some, characters = [], 0
            some.append(each)
            characters += size
        if some:
            yield some

    def replace_one(self, new: Record) -> Record | None:
        row = self._connection.call("CALL put_record(%s, %s, %s)", _values([new]))
        if row is None:
            return None
        return read_record(row)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        rows = self._execute_among(f"SELECT {record_sql.FIELDS} FROM records", keys)
        return {(row[0], row[1]): read_record(row) for row in rows.fetchall()}

    def _execute_among(self, statement: str, keys: list[Key]) -> Result:
        values = [value for key in keys for value in key]
        result: Result = self._execute(f"{statement} WHERE (name, location) IN ({_rows(len(keys), 2)})", values)
        return result

    def delete_one(self, key: Key) -> bool:
        return bool(self._execute(STATEMENTS.delete, key).rowcount == 1)

    def delete_many(self, keys: list[Key]) -> None:
        if keys:
            self._execute_among("DELETE FROM records", keys)


def _rows(count: int, columns: int) -> str:
    return ", ".join([f"({', '.join(['%s'] * columns)})"] * count)


def _values(records: list[Record]) -> list[str]:
    return [value for each in records for value in (each["name"], each["location"], each["stub"])]


# The types are those of the published table.
ARRAY_TYPES = {
    "id": "BIGINT UNSIGNED NOT NULL",
    "double": "DOUBLE NOT NULL",
    "flag": "TINYINT(1) NOT NULL",
    "time": "DATETIME NOT NULL",
    "text": "VARCHAR(255) NOT NULL",
}
ARRAY_SUFFIX = " ENGINE=InnoDB DEFAULT CHARSET=utf8 COLLATE=utf8_unicode_ci"
LOAD_ARRAYS = (
    f"LOAD DATA LOCAL INFILE '{{path}}' INTO TABLE {array_sql.TABLE} CHARACTER SET utf8 FIELDS TERMINATED BY ',' "
    f"OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n' ({', '.join(NAMES)})"
)


class Arrays(array_sql.CursorArrays):
    """See `dyno.suites.arrays.port.Arrays`."""

    # Cast to double, because the mean of integers would be a decimal with four digits.
    mean, deviation = "AVG(CAST({} AS DOUBLE))", "STDDEV_POP(CAST({} AS DOUBLE))"

    def __init__(self, engine: InnoDB) -> None:
        connection = engine.connect(loading=True)
        super().__init__(connection, connection.execute)
        self._execute(array_sql.create(ARRAY_TYPES, ARRAY_SUFFIX))

    @contextmanager
    def writing(self, rows: int) -> Iterator[Callable[[Chunk], None]]:
        with transaction(self._execute):
            yield self._load

    def _load(self, chunk: Chunk) -> None:
        count = len(next(iter(chunk.values())))
        loaded = load(self._connection, LOAD_ARRAYS, columns.csv(chunk))
        if loaded != count:
            # The server skips rows that it can't load, with only a warning.
            raise ValueError(f"{loaded} of {count} rows were loaded")

    def update(self, change: Change) -> None:
        """Updates rows by joining the table with the new values as JSON, in one round trip."""
        lists = [array_sql.keys(change), *(values.tolist() for values in change.values.values())]
        kinds = ", ".join(f"{name} DOUBLE PATH '$[{at}]'" for at, name in enumerate(change.values, 1))
        changed = ", ".join(f"{array_sql.TABLE}.{name} = chunk.{name}" for name in change.values)
        self._execute(
            f"UPDATE {array_sql.TABLE} JOIN JSON_TABLE(%s, '$[*]' COLUMNS ({KEY} BIGINT PATH '$[0]', {kinds})) "
            f"AS chunk ON {array_sql.TABLE}.{KEY} = chunk.{KEY} SET {changed}",
            (json.dumps(list(zip(*lists, strict=True))),),
        )


SERIES_TYPES = series_sql.Types(name="VARCHAR(60)", id="INT", ts="BIGINT", val="DOUBLE", small="SMALLINT")
SERIES_SUFFIX = "ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin"
LOAD_SAMPLES = (
    f"LOAD DATA LOCAL INFILE '{{path}}' REPLACE INTO TABLE {series_sql.TABLE} CHARACTER SET latin1 "
    f"FIELDS TERMINATED BY ',' LINES TERMINATED BY '\\n' ({', '.join(FIELDS)})"
)


class Series(SqlSeries):
    """A table that is clustered on variable and time. See `dyno.suites.series.port.Series`."""

    mark = "%s"
    begins = "ts DIV {bucket} * {bucket}"
    last = series_sql.LATEST_BY_SKIPS

    def __init__(self, engine: InnoDB, names: Sequence[str]) -> None:
        self._connection = engine.connect(loading=True)
        self._execute = self._connection.execute
        self._execute(series_sql.create_names(SERIES_TYPES, SERIES_SUFFIX))
        self._execute(series_sql.create(SERIES_TYPES, SERIES_SUFFIX))
        super().__init__(self.add_names(names))

    def insert(self, batch: SampleBatch) -> None:
        with transaction(self._execute):
            loaded = load(self._connection, LOAD_SAMPLES, samples.to_csv(self.with_store_ids(batch)))
        if loaded < len(batch.ts):
            # The server skips bad rows with only a warning, and counts rows that replace others twice.
            raise ValueError(f"{loaded} of {len(batch.ts)} samples were loaded")

    def all(self) -> Iterator[SampleBatch]:
        for rows in self._connection.stream_rows(series_sql.ALL, series_sql.ROWS):
            yield self.batch(samples.columns_of(rows))


class Transactions(DatabaseTests):
    """The port `transactions`: sysbench works in the store's database, or in the one that the user's URL names."""

    def __init__(self, engine: InnoDB) -> None:
        given, database = engine.server.address, engine.name
        if not engine.server.own:
            if "ssl_ca" in given:
                raise Refused("sysbench can't check a server's certificate: leave ssl_ca out of url")
            engine.claim()
            database = given["database"]
        # PyMySQL has the same default. For libmariadb, localhost is the default socket and not the port.
        arguments = {"user": getuser(), **given, "db": database}
        if arguments.get("host") == "localhost":
            arguments["host"] = "127.0.0.1"
        names = {"unix_socket": "socket", **{name: name for name in ("host", "port", "user", "db")}}
        words = [f"--mysql-{flag}={arguments[name]}" for name, flag in names.items() if name in arguments]
        config = ""
        if "password" in given:
            config = config_line("mysql-password", given["password"])
        # A node of a cluster gives each second or third id, but sysbench needs all of them: it deletes and inserts
        # rows by their ids, from 1 to the number of rows.
        super().__init__(engine.connect(), ["--db-driver=mysql", "--auto_inc=off", *words], config=config)
