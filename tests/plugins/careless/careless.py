"""Real engines with settings too weak for their declared tier, so that the findings of `dyno crash` are known. Not
for measurements.
"""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.engine import CrashSpec, EngineSpec, Listing, Server
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.engines.duckdb import DuckDB
from dyno.engines.influxdb import InfluxDB
from dyno.engines.leveldb import LevelDB
from dyno.engines.lmdb import GIB, READERS, Lmdb
from dyno.engines.mysql.engines import InnoDB
from dyno.engines.mysql.server_mariadb import MARIADB as MARIADB_SERVER
from dyno.engines.mysql.server_mariadb import MariaDB
from dyno.engines.postgresql.server import PostgreSQL
from dyno.engines.questdb import QuestDB
from dyno.engines.rocksdb import RocksDB
from dyno.engines.sqlite import SQLite
from dyno.engines.zodb import databases


def careless(name: str, tier: Tier, create: Callable[..., Server] | None = None, **changed: Any) -> EngineSpec:
    """One of Dyno's own engines at a single tier, with changed fields, and with the server that `create` returns."""
    spec = registry.engine(name)
    if create is not None and spec.server is not None:
        changed["server"] = replace(spec.server, create=create)
    return replace(
        spec,
        name=f"careless-{name}",
        tiers={tier: {"careless": True}},
        default_tier=tier,
        listing=Listing(by_default=False),
        **changed,
    )


# -- in the process ------------------------------------------------------------------------------------------

HOW = ("delete-full", "delete-off", "wal-normal", "wal-off")


class CarelessSQLite(SQLite):
    """SQLite with the journal mode and the flushes of the option `how`."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        self._journal, self._flushes = str(options["how"]).split("-")
        super().__init__(home, tier, options)

    def connect(self) -> sqlite3.Connection:
        connection = super().connect()
        connection.execute(f"PRAGMA journal_mode={self._journal}")
        connection.execute(f"PRAGMA synchronous={self._flushes}")
        return connection


class CarelessLmdb(Lmdb):
    """LMDB that doesn't flush the root, so that the last commit may be lost."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import lmdb

        self._home, self._library, self._options = home, lmdb, options
        self.env = lmdb.open(str(home), map_size=GIB, max_readers=READERS, sync=True, metasync=False)


class SmallLevelDB(LevelDB):
    """LevelDB at tier power with a small buffer: it fills up after a few commits, and a new log begins."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        import plyvel

        self._home, self._options, self.sync = home, options, True
        self.db = plyvel.DB(str(home), create_if_missing=True, write_buffer_size=1 << 16)


class CarelessRocksDB(RocksDB):
    """RocksDB without a log: the data in its memory is lost with the process."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self.write_options.disable_wal = True


class FlushingDuckDB(DuckDB):
    """DuckDB as its tier `power` would be."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, Tier.PROCESS, options)
        self.db.execute("SET fsync_mode = 'STANDARD'")


SQLITE = careless(
    "sqlite",
    Tier.POWER,
    opener=CarelessSQLite,
    options=(*registry.engine("sqlite").options, Setting("how", choice(*HOW), HOW[0], "journal and flushes")),
)
LMDB = careless("lmdb", Tier.POWER, opener=CarelessLmdb)
LEVELDB = careless("leveldb", Tier.POWER, opener=SmallLevelDB, crashes=CrashSpec())
ROCKSDB = careless("rocksdb", Tier.PROCESS, opener=CarelessRocksDB, crashes=CrashSpec())
DUCKDB = careless("duckdb", Tier.POWER, opener=FlushingDuckDB)
# Includes packing, which an administrator may do at the time of a power cut.
FILESTORAGE = careless("filestorage", Tier.POWER, crashes=CrashSpec(databases.PACK))


class Dying(SQLite):
    """Kills its process when it is opened a second time."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        if (home / "opened").exists():
            os.kill(os.getpid(), signal.SIGBUS)
        (home / "opened").touch()
        super().__init__(home, tier, options)


class Leaking(SQLite):
    """Leaves 300 files open, under a limit of 1,024 open files."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, most))
        for _ in range(300):
            os.open(os.devnull, os.O_RDONLY)
        super().__init__(home, tier, options)


LEAKING = replace(careless("sqlite", Tier.PROCESS, opener=Leaking), name="careless-leaking")
DYING = replace(careless("sqlite", Tier.PROCESS, opener=Dying), name="careless-dying")


# -- servers -------------------------------------------------------------------------------------------------


def _postgresql(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> PostgreSQL:
    return PostgreSQL(home, {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "off"}, clients)


def _mariadb(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> MariaDB:
    settings = {"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "OFF"}
    return MariaDB(MARIADB_SERVER, home, settings, clients)


def _influxdb(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> InfluxDB:
    return InfluxDB(home, {"data.wal-fsync-delay": '"0s"', "data.index-version": '"inmem"'})


def _questdb(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> QuestDB:
    return QuestDB(home, {"cairo.commit.mode": "sync"})


INFLUXDB = careless("influxdb", Tier.POWER, create=_influxdb)
QUESTDB = careless("questdb", Tier.POWER, create=_questdb)
POSTGRESQL = careless("postgresql", Tier.POWER, create=_postgresql)
# Opened at tier volatile, because the adapter would refuse this server at tier power.
MARIADB = careless(
    "mariadb",
    Tier.POWER,
    create=_mariadb,
    opener=lambda home, tier, options, server: InnoDB(MARIADB_SERVER, home, Tier.VOLATILE, options, server),
)
