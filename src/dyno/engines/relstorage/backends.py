"""The databases that RelStorage can use: their client libraries, servers, and settings for each tier."""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from dyno.contracts.engine import Server
from dyno.contracts.model import Tier, Value
from dyno.engines.mysql.server_mariadb import MARIADB, PROGRAMS, MariaDB
from dyno.engines.postgresql.server import PROGRAM, PostgreSQL
from dyno.host import installation

CONNECTIONS = 8
"""Number of server connections that a client may need: one for each of ZODB's connections, and more for commits."""

LOCKS = 2_048
"""Value of max_locks_per_transaction. With 8 connections, a client may change 16,384 objects at once. The default is
64."""


_REFERENCES = re.compile(r"\bREFERENCES\s+([\"`]?)transaction\1(?!\s*\()")
DRIVERS: Mapping[str, tuple[str, str]] = {
    "sqlite3": ("sqlite3", ""),
    "psycopg2": ("psycopg2", "psycopg2-binary"),
    "PyMySQL": ("pymysql", "PyMySQL"),
    "MySQLdb": ("MySQLdb", "mysqlclient"),
}
"""Module and package of each client library, by RelStorage's name."""


class Backend(NamedTuple):
    """A kind of database that RelStorage can use."""

    drivers: tuple[str, ...]
    """Client libraries, the default first. RelStorage's own default `auto` may choose different ones from start to
    start."""
    tiers: Mapping[Tier, Mapping[str, Value]]


BACKENDS: Mapping[str, Backend] = {
    "sqlite": Backend(
        ("sqlite3",),
        # RelStorage uses SQLite's write-ahead log. NORMAL, its default, flushes only at checkpoints. FULL flushes the
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
"""Settings of all backends together, which have no names in common."""


def driver(options: Mapping[str, Value]) -> str:
    """Returns RelStorage's name of the client library."""
    return str(options["driver"] or BACKENDS[str(options["backend"])].drivers[0])


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.refuse`."""
    backend, name = str(options["backend"]), driver(options)
    if name not in BACKENDS[backend].drivers:
        return f"driver={name} does not reach backend={backend}; there are: {', '.join(BACKENDS[backend].drivers)}"
    return None


def needs(options: Mapping[str, Value]) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.needs`."""
    module, package = DRIVERS[driver(options)]
    if find_spec(module) is None:
        return f"needs {module} for backend={options['backend']}: {installation.command([package])}"
    if options["backend"] == "postgresql":
        return PROGRAM.missing()
    return PROGRAMS[MARIADB].missing() if options["backend"] == "mariadb" else None


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server | None:
    """Returns the server that Dyno starts; None for SQLite."""
    backend, cache = str(options["backend"]), options["server_cache_mib"]
    settings = {name: str(value) for name, value in BACKENDS[backend].tiers[tier].items()}
    if backend == "postgresql":
        # A commit takes a lock for each changed object, and the number of locks is limited.
        settings |= {"shared_buffers": f"{cache}MB", "max_locks_per_transaction": str(LOCKS)}
        return PostgreSQL(home, settings, clients * CONNECTIONS)
    if backend == "mariadb":
        # An object's state is one value, which may be larger than the default limit of 16 MiB.
        settings |= {"innodb_buffer_pool_size": f"{cache}M", "max_allowed_packet": "1G"}
        return MariaDB(MARIADB, home, settings, clients * CONNECTIONS)
    return None


def mariadb_adapter(options: Any, address: Mapping[str, Any]) -> Any:
    """Returns RelStorage's adapter for MySQL with two changes, without which RelStorage 4 can't use MariaDB.

    The adapter takes MariaDB 10.11 for MySQL 8.0.19 or later, and sends syntax that MariaDB lacks (`VALUES (...) AS
    excluded`). So the adapter gets the version of MySQL that MariaDB is compatible with. The tables with a history
    say `REFERENCES transaction` beside a column, without naming the other column. MySQL ignores this and MariaDB
    refuses it (errno 150), so it is left out; the tables are then the same as on MySQL.
    """
    from relstorage.adapters.mysql import MySQLAdapter
    from relstorage.adapters.mysql.schema import MySQLSchemaInstaller, MySQLVersionDetector

    class Detector(MySQLVersionDetector):  # type: ignore[misc]
        def _fetch_version_from_server(self, cursor: Any) -> str:
            text = str(super()._fetch_version_from_server(cursor))
            return "5.7.19" if "MariaDB" in text else text

    for name in dir(MySQLSchemaInstaller):
        statements = getattr(MySQLSchemaInstaller, name, None) if name.startswith("CREATE_") else None
        if isinstance(statements, str):
            setattr(MySQLSchemaInstaller, name, _REFERENCES.sub("", statements))
        elif isinstance(statements, tuple):
            setattr(MySQLSchemaInstaller, name, tuple(_REFERENCES.sub("", each) for each in statements))
    return MySQLAdapter(options=options, version_detector=Detector(), **address)
