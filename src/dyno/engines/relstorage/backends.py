"""The databases that RelStorage can be on here: their libraries, their servers, and what gives a tier on each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from dyno.contracts.engine import Server
from dyno.contracts.model import Tier, Value
from dyno.engines.mysql import server_mariadb
from dyno.engines.mysql.server_mariadb import MARIADB, MariaDB
from dyno.engines.postgresql import server
from dyno.engines.postgresql.server import PostgreSQL
from dyno.host import installation

CONNECTIONS = 8
"""To the server, of each client: RelStorage has one for each of ZODB's connections, and others for commits."""

LOCKS = 2_048
"""Of PostgreSQL's, for each connection: 16,384 objects that each client may change at once. Its default is 64."""


class Driver(NamedTuple):
    """A library by the name that RelStorage knows it by, its module, and what pip installs for it."""

    module: str
    package: str


DRIVERS: Mapping[str, Driver] = {
    "sqlite3": Driver("sqlite3", ""),
    "psycopg2": Driver("psycopg2", "psycopg2-binary"),
    "PyMySQL": Driver("pymysql", "PyMySQL"),
    "MySQLdb": Driver("MySQLdb", "mysqlclient"),
}


class Backend(NamedTuple):
    """A kind of database."""

    drivers: tuple[str, ...]
    """Those that can reach it; the first by default. RelStorage's own choice, auto, is not the same at each start."""
    tiers: Mapping[Tier, Mapping[str, Value]]


BACKENDS: Mapping[str, Backend] = {
    "sqlite": Backend(
        ("sqlite3",),
        # RelStorage has SQLite write ahead. NORMAL, which it asks for, flushes at checkpoints only; FULL flushes the
        # log at every commit.
        {Tier.PROCESS: {"synchronous": "normal"}, Tier.POWER: {"synchronous": "full"}},
    ),
    "postgresql": Backend(
        ("psycopg2",),
        {
            Tier.PROCESS: {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"},
            Tier.POWER: {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"},
        },
    ),
    "mariadb": Backend(
        ("PyMySQL", "MySQLdb"),
        {
            Tier.PROCESS: {"innodb_flush_log_at_trx_commit": 2, "innodb_doublewrite": "ON"},
            Tier.POWER: {"innodb_flush_log_at_trx_commit": 1, "innodb_doublewrite": "ON"},
        },
    ),
}
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    tier: {name: value for backend in BACKENDS.values() for name, value in backend.tiers[tier].items()}
    for tier in (Tier.PROCESS, Tier.POWER)
}
"""Of all of them: each has settings that the others do not have."""


def driver(options: Mapping[str, Value]) -> str:
    """The library's name, as RelStorage has it."""
    return str(options["driver"] or BACKENDS[str(options["backend"])].drivers[0])


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    """Why these options don't go together; None where they do."""
    backend, name = str(options["backend"]), driver(options)
    if name not in BACKENDS[backend].drivers:
        return f"driver={name} does not reach backend={backend}; there are: {', '.join(BACKENDS[backend].drivers)}"
    return None


def needs(options: Mapping[str, Value]) -> str | None:
    """What is missing here; None where all is there."""
    library = DRIVERS[driver(options)]
    if find_spec(library.module) is None:
        return f"needs {library.module} for backend={options['backend']}: {installation.command([library.package])}"
    if options["backend"] == "postgresql":
        return server.missing()
    return server_mariadb.missing(MARIADB) if options["backend"] == "mariadb" else None


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server | None:
    """The server, not started; None for SQLite."""
    backend, cache = str(options["backend"]), options["server_cache_mib"]
    settings = {name: str(value) for name, value in BACKENDS[backend].tiers[tier].items()}
    if backend == "postgresql":
        # Whoever commits has a lock of the server's for each object that is changed, and no end of them is to be had.
        settings |= {"shared_buffers": f"{cache}MB", "max_locks_per_transaction": str(LOCKS)}
        return PostgreSQL(home, settings, clients * CONNECTIONS)
    if backend == "mariadb":
        # A state is one value, of any length; the default ends at 16 MiB.
        settings |= {"innodb_buffer_pool_size": f"{cache}M", "max_allowed_packet": "1G"}
        return MariaDB(MARIADB, home, settings, clients * CONNECTIONS)
    return None
