"""The port `records` on MariaDB and MySQL, whose statements are alike."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dyno.contracts.model import Refused
from dyno.suites.records.port import INDEXES, Key, Record
from dyno.suites.records.sql import FIELDS, RecordTable, SqlReader, Statements, record

BATCH = 1_000
STATEMENTS = Statements("%s")
SCAN = (
    f"SELECT {FIELDS} FROM records WHERE name = %s AND location >= %s OR name > %s ORDER BY name, location LIMIT %s"
)
"""The condition is equivalent to `(name, location) >= (…)`, for which both servers would read the table from its
start. In this form it is a range of the primary key."""
INSERT = f"INSERT INTO records ({FIELDS}) VALUES"
REPLACE = "ON DUPLICATE KEY UPDATE stub = VALUES(stub)"
PUT = """
CREATE PROCEDURE put_record(a {text}, b {text}, c {long})
BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    SELECT name, location, stub FROM records WHERE name = a AND location = b;
    INSERT INTO records (name, location, stub) VALUES (a, b, c) ON DUPLICATE KEY UPDATE stub = c;
    COMMIT;
END"""
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
            return [record(row) for row in execute(SCAN, (name, location, name, count)).fetchall()]

        return scan


class Table(RecordTable):
    """The port `records`. Many records are inserted by statements with many rows, and read and deleted by a list of
    keys."""

    batch = BATCH

    def __init__(self, engine: Any, indexed: bool) -> None:
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
            execute(PUT.format(text=text, long=long))

    def insert_one(self, record: Record) -> None:
        self._execute(f"{INSERT} (%s, %s, %s)", _values([record]))

    def insert_many(self, records: Iterable[Record]) -> None:
        for some in self._fitting(records):
            self._execute(f"{INSERT} {_rows(len(some), 3)}", _values(some))

    def store(self, records: list[Record]) -> None:
        for some in self._fitting(records):
            self._execute(f"{INSERT} {_rows(len(some), 3)} {REPLACE}", _values(some))

    def _fitting(self, records: Iterable[Record]) -> Iterator[list[Record]]:
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
        return None if row is None else record(row)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        rows = self._execute_among(f"SELECT {FIELDS} FROM records", keys)
        return {(row[0], row[1]): record(row) for row in rows.fetchall()}

    def _execute_among(self, statement: str, keys: list[Key]) -> Any:
        values = [value for key in keys for value in key]
        return self._execute(f"{statement} WHERE (name, location) IN ({_rows(len(keys), 2)})", values)

    def delete_one(self, key: Key) -> bool:
        return bool(self._execute(STATEMENTS.delete, key).rowcount == 1)

    def delete_many(self, keys: list[Key]) -> None:
        if keys:
            self._execute_among("DELETE FROM records", keys)


def _rows(count: int, columns: int) -> str:
    return ", ".join([f"({', '.join(['%s'] * columns)})"] * count)


def _values(records: list[Record]) -> list[str]:
    return [value for each in records for value in (each["name"], each["location"], each["stub"])]
