"""DuckDB: a columnar SQL database inside the process, made for analysis rather than for single records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dyno.model import Caveat, EngineSpec, Setting, Tier, Value, integer
from dyno.suites.records.port import INDEXES, Key, Record
from dyno.suites.records.sql import FIELDS, SqlReader, Statements, record, transaction
from dyno.suites.records.table import batches, opener


def _flushes_always() -> bool:
    """Whether this DuckDB flushes every commit: before 2.0 it had no setting for it."""
    try:
        return int(version("duckdb").split(".")[0]) < 2
    except (PackageNotFoundError, ValueError):
        return False


FLUSHES_ALWAYS = _flushes_always()
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"database": ":memory:"},
    # The write-ahead log is handed to the kernel at a commit, and flushed by it when it likes.
    Tier.PROCESS: {"database": "file", "fsync_mode": "NONE"},
    Tier.POWER: {"database": "file", "fsync_mode": "STANDARD"},
}
if FLUSHES_ALWAYS:
    TIERS = {Tier.VOLATILE: TIERS[Tier.VOLATILE], Tier.POWER: {"database": "file"}}
SHOWN = ("fsync_mode", "threads", "memory_limit", "wal_autocheckpoint")
# DuckDB takes a list per column far faster than a row per statement: this many rows a list.
BATCH = 20_000


class DuckDB:
    """One database; threads share it, each through a cursor of its own."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import duckdb

        self._path = home / "records.duckdb"
        self._tier = TIERS[tier]
        self.db: Any = duckdb.connect(":memory:" if tier is Tier.VOLATILE else str(self._path))
        if options["threads"]:
            self.db.execute(f"SET threads = {options['threads']}")
        if options["memory_limit_mib"]:
            self.db.execute(f"SET memory_limit = '{options['memory_limit_mib']}MiB'")
        if "fsync_mode" in self._tier:
            self.db.execute(f"SET fsync_mode = '{self._tier['fsync_mode']}'")

    def close(self) -> None:
        self.db.close()

    def version(self) -> str:
        return f"DuckDB {version('duckdb')}"

    def settings(self) -> Mapping[str, Value | None]:
        told = dict(self.db.execute("SELECT name, value FROM duckdb_settings()").fetchall())
        return {"database": self._tier["database"], **{name: told.get(name) for name in SHOWN}}

    def files(self) -> Iterable[Path]:
        return self._path.parent.glob(self._path.name + "*")

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("columns", "keeps a record in columns of its own: the encoder parameter is not used")


STATEMENTS = Statements()
# The row comparison is what the query means; the bare `name >= ?` lets DuckDB skip whole row groups.
STATEMENTS.scan = (
    f"SELECT {FIELDS} FROM records WHERE name >= $1 AND (name, location) >= ($1, $2) ORDER BY name, location LIMIT $3"
)
KEYS = "(SELECT unnest($1) AS k_name, unnest($2) AS k_location)"
GET_MANY = f"SELECT {FIELDS} FROM records JOIN {KEYS} ON name = k_name AND location = k_location"
DELETE_MANY = f"DELETE FROM records USING {KEYS} WHERE name = k_name AND location = k_location"


class Table:
    """See `dyno.suites.records.table.Table`: many records are lists of columns."""

    batch = BATCH

    def __init__(self, engine: DuckDB, indexed: bool) -> None:
        self._cursor = cursor = engine.db.cursor()
        self._indexes = tuple(INDEXES.items()) if indexed else ()
        self.reader = SqlReader(cursor.execute, STATEMENTS)
        names = ["name", "location", "stub", *(name for name, _ in self._indexes)]
        self._one = f"INTO records VALUES ({', '.join('?' * len(names))})"
        self._many = f"INTO records SELECT {', '.join(f'unnest(${n + 1})' for n in range(len(names)))}"
        columns = ", ".join(f"{name} VARCHAR NOT NULL" for name in names)
        cursor.execute(f"CREATE TABLE IF NOT EXISTS records ({columns}, PRIMARY KEY (name, location))")
        for name, _ in self._indexes:
            cursor.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({name})")

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self._cursor.execute)

    def _write(self, verb: str, records: list[Record]) -> None:
        values = [[record[field] for record in records] for field in ("name", "location", "stub")]
        values += [[function(record) for record in records] for _, function in self._indexes]
        if len(records) == 1:
            self._cursor.execute(f"{verb} {self._one}", [column[0] for column in values])
        else:
            self._cursor.execute(f"{verb} {self._many}", values)

    def insert_one(self, record: Record) -> None:
        self._write("INSERT", [record])

    def insert_many(self, records: Iterable[Record]) -> None:
        for batch in batches(records, BATCH):
            self._write("INSERT", batch)

    def store(self, records: list[Record]) -> None:
        self._write("INSERT OR REPLACE", records)

    def get_many(self, keys: list[Key]) -> dict[Key, Record]:
        rows = self._cursor.execute(GET_MANY, _columns(keys)).fetchall()
        return {(row[0], row[1]): record(row) for row in rows}

    def delete_one(self, key: Key) -> bool:
        return bool(self._cursor.execute(STATEMENTS.delete, key).fetchone()[0])

    def delete_many(self, keys: list[Key]) -> None:
        self._cursor.execute(DELETE_MANY, _columns(keys))

    def close(self) -> None:
        self._cursor.close()


def _columns(keys: list[Key]) -> list[list[str]]:
    return [[name for name, _ in keys], [location for _, location in keys]]


ENGINE = EngineSpec(
    name="duckdb",
    title="DuckDB, a columnar SQL database in the process",
    opener=DuckDB,
    ports={"records": opener(Table)},
    tiers=TIERS,
    default_tier=Tier.POWER if FLUSHES_ALWAYS else Tier.PROCESS,
    modules=("duckdb",),
    install="pip install duckdb",
    options=(
        Setting("threads", integer(0, 1024), 0, "worker threads; 0 for DuckDB's default (the number of cores)"),
        Setting(
            "memory_limit_mib",
            integer(0),
            0,
            "buffer memory, in MiB; 0 for DuckDB's default (80 % of memory)",
        ),
    ),
    clients="threads",
)
