"""SQLite as an ordered key-value store: one table of bytes to bytes, clustered on the key."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.suites._shared.ordered_kv import Entry, KVReader, OrderedKV

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # The rollback journal is in memory: a process that dies during a commit may leave a torn file.
    Tier.VOLATILE: {"journal_mode": "memory", "synchronous": "off"},
    # A commit writes the log to the kernel, which flushes it later.
    Tier.PROCESS: {"journal_mode": "wal", "synchronous": "off"},
    # Every commit flushes the log to the device.
    Tier.POWER: {"journal_mode": "wal", "synchronous": "full"},
}
SYNCHRONOUS = ("off", "normal", "full", "extra")


class SQLiteKV:
    """One database file. Every client has its own connection."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self._path = home / "kv.sqlite"
        self._pragmas = {**TIERS[tier], "cache_size": -int(options["cache_mib"]) * 1024}
        self._connection = self.connect()
        table = "kv (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def connect(self) -> sqlite3.Connection:
        # Autocommit: only an explicit BEGIN starts a transaction.
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=60)
        for name, value in self._pragmas.items():
            connection.execute(f"PRAGMA {name}={value}")
        return connection

    def close(self) -> None:
        self._connection.close()

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def settings(self) -> Mapping[str, Value | None]:
        def read(name: str) -> Any:
            return self._connection.execute(f"PRAGMA {name}").fetchone()[0]

        return {
            "journal_mode": read("journal_mode"),
            "synchronous": SYNCHRONOUS[read("synchronous")],
            "cache_kib": -read("cache_size"),
        }

    def files(self) -> Iterable[Path]:
        return self._path.parent.glob(self._path.name + "*")

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("sql", "runs a SQL statement for every get, put and delete")


class Keys(OrderedKV, KVReader):
    """The `ordered-kv` port. The same object reads and writes."""

    def __init__(self, engine: SQLiteKV) -> None:
        self._connection = engine.connect()
        self._execute = self._connection.execute

    def get(self, key: bytes) -> bytes | None:
        row = self._execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def seek(self, key: bytes) -> Iterator[Entry]:
        return self._execute("SELECT key, value FROM kv WHERE key >= ? ORDER BY key", (key,))

    def put(self, key: bytes, value: bytes) -> None:
        self._execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (key, value))

    def delete(self, key: bytes) -> None:
        self._execute("DELETE FROM kv WHERE key = ?", (key,))

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Keys]:
        self._execute(begin)
        try:
            yield self
        except BaseException:
            self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")

    def reading(self) -> Any:
        return self._transaction("BEGIN")

    def writing(self) -> Any:
        # Takes the write lock at once: a transaction that has read first can't always get it later.
        return self._transaction("BEGIN IMMEDIATE")

    def close(self) -> None:
        self._connection.close()


ENGINE = EngineSpec(
    name="sqlite-kv",
    title="SQLite as an ordered key-value store (sqlite3)",
    opener=SQLiteKV,
    ports={"ordered-kv": PortSpec(Keys)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    installation=Installation(modules=("sqlite3",)),
    options=(Setting("cache_mib", integer(1), 256, "page cache of each connection, in MiB"),),
    clients="processes",
)
