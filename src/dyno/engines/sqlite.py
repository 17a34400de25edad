"""SQLite by Python's own sqlite3: a B-tree SQL database inside the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.model import Caveat, EngineSpec, Setting, Tier, Value, choice, integer
from dyno.suites.records.port import INDEXES, Key, Reader, Record
from dyno.suites.records.sql import SqlReader, Statements, transaction

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A rollback journal in memory: a process that dies inside a commit may leave a torn file.
    Tier.VOLATILE: {"journal_mode": "memory", "synchronous": "off"},
    Tier.PROCESS: {"journal_mode": "wal", "synchronous": "off"},
    # In WAL mode, NORMAL flushes at checkpoints only; FULL flushes the log at every commit.
    Tier.POWER: {"journal_mode": "wal", "synchronous": "full"},
}
STATEMENTS = Statements()
PAGE_SIZES = tuple(1 << power for power in range(9, 17))
SYNCHRONOUS = ("off", "normal", "full", "extra")


def page_size(text: str) -> Value:
    """SQLite passes over a page size that it does not take, so it is refused here."""
    number = int(text) if text.isdigit() else 0
    if number not in PAGE_SIZES:
        raise ValueError(f"wants one of {', '.join(map(str, PAGE_SIZES))}")
    return number


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    """A journal in memory dies with the process, and with it the way back from half a commit."""
    if options["journal_mode"] == "memory" and tier is not Tier.VOLATILE:
        return f"journal_mode=memory can't give tier {tier.value}; it gives: volatile"
    return None


def durability(tier: Tier, journal: str) -> Mapping[str, Value]:
    """The settings that give the tier with the journal mode that was asked for ('' for the tier's own)."""
    if not journal or journal == TIERS[tier]["journal_mode"]:
        return TIERS[tier]
    # Without EXTRA the deletion of a rollback journal, which is the commit, may not reach the device.
    synchronous = "extra" if tier is Tier.POWER else TIERS[tier]["synchronous"]
    return {"journal_mode": journal, "synchronous": synchronous}


class SQLite:
    """One database file; every client has a connection of its own."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self._path, self._options = home / "records.sqlite", options
        self._durability = durability(tier, str(options["journal_mode"]))
        self._connection = self.connect()

    def connect(self) -> sqlite3.Connection:
        # Autocommit: transactions begin where this file says BEGIN.
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=60, cached_statements=64)
        connection.execute(f"PRAGMA page_size={self._options['page_size']}")
        connection.execute(f"PRAGMA journal_mode={self._durability['journal_mode']}")
        connection.execute(f"PRAGMA synchronous={self._durability['synchronous']}")
        connection.execute(f"PRAGMA cache_size=-{int(self._options['cache_mib']) * 1024}")
        connection.execute(f"PRAGMA mmap_size={int(self._options['mmap_mib']) * (1 << 20)}")
        return connection

    def close(self) -> None:
        self._connection.close()

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def settings(self) -> Mapping[str, Value | None]:
        def read(name: str) -> Any:
            return self._connection.execute(f"PRAGMA {name}").fetchone()[0]

        told = {name: read(name) for name in ("journal_mode", "page_size", "wal_autocheckpoint", "mmap_size")}
        return {"synchronous": SYNCHRONOUS[read("synchronous")], "cache_kib": -read("cache_size"), **told}

    def files(self) -> Iterable[Path]:
        return self._path.parent.glob(self._path.name + "*")

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("columns", "keeps a record in columns of its own: the encoder parameter is not used")


class Records:
    """The `records` port: a table clustered on the key; the indexed values are columns, as SQLite has no
    function that reverses a string."""

    def __init__(self, engine: SQLite, indexed: bool) -> None:
        self._connection = connection = engine.connect()
        self._indexed = indexed
        self._reader = SqlReader(connection.execute, STATEMENTS)
        self._insert, self._upsert = self._statements()
        columns = "".join(f", {name} TEXT NOT NULL" for name in INDEXES) if indexed else ""
        connection.execute(
            "CREATE TABLE IF NOT EXISTS records (name TEXT NOT NULL, location TEXT NOT NULL, stub TEXT NOT NULL"
            f"{columns}, PRIMARY KEY (name, location)) WITHOUT ROWID"
        )
        for name in INDEXES if indexed else ():
            connection.execute(f"CREATE INDEX IF NOT EXISTS by_{name} ON records ({name})")

    def _statements(self) -> tuple[str, str]:
        names = ["name", "location", "stub", *(INDEXES if self._indexed else ())]
        insert = f"INSERT INTO records ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        changed = ", ".join(f"{name} = excluded.{name}" for name in names[2:])
        return insert, f"{insert} ON CONFLICT (name, location) DO UPDATE SET {changed}"

    def _row(self, record: Record) -> tuple[str, ...]:
        name, location = record["name"], record["location"]
        if self._indexed:
            return name, location, record["stub"], name[::-1], location[::-1]
        return name, location, record["stub"]

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with transaction(self._connection.execute):
            yield self._reader

    def reader(self) -> Reader:
        return self._reader

    def insert(self, records: Iterable[Record]) -> None:
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            self._connection.executemany(self._insert, map(self._row, records))

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        olds, get, execute = [], self._reader.get, self._connection.execute
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            for record in records:
                olds.append(get((record["name"], record["location"])))
                execute(self._upsert, self._row(record))
        return olds

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        with transaction(self._connection.execute, "BEGIN IMMEDIATE"):
            return [self._connection.execute(STATEMENTS.delete, key).rowcount == 1 for key in keys]

    def close(self) -> None:
        self._connection.close()


ENGINE = EngineSpec(
    name="sqlite",
    title="SQLite, a B-tree SQL database in the process (sqlite3)",
    opener=SQLite,
    ports={"records": Records},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    refuse=refuse,
    modules=("sqlite3",),
    options=(
        Setting(
            "journal_mode",
            choice("", "wal", "delete", "truncate", "persist", "memory"),
            "",
            "journal mode; by default the tier's own (wal, or memory for volatile)",
        ),
        Setting("cache_mib", integer(1), 64, "page cache of each connection, in MiB"),
        Setting("page_size", page_size, 4096, "page size, in bytes"),
        Setting("mmap_mib", integer(0), 0, "how much of the file to map, in MiB (SQLite's default: none)"),
    ),
    clients="processes",
)
