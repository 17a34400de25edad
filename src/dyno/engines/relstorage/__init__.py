"""RelStorage: ZODB's pickles in a SQL database, which is SQLite in the process or a server that Dyno starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import CrashSpec, EngineSpec, PortSpec, Server, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.engines import postgresql
from dyno.engines.mysql import engines as mysql
from dyno.engines.mysql.server_mariadb import MARIADB, PROGRAMS, MariaDB
from dyno.engines.postgresql.server import PROGRAM, PostgreSQL
from dyno.engines.zodb import databases
from dyno.host import installation
from dyno.servers import namespace

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as PostgresCursor
    from pymysql.cursors import Cursor as MySQLCursor
    from relstorage.adapters.interfaces import IRelStorageAdapter
    from relstorage.adapters.mysql import MySQLAdapter
    from relstorage.options import Options

CONNECTIONS = 8
"""Number of server connections that a client may need: one for each of ZODB's connections, and more for commits."""

LOCKS = 2_048
"""Value of max_locks_per_transaction. A client with 8 connections may change 16,384 objects at once."""


_REFERENCES = re.compile(r"\bREFERENCES\s+([\"`]?)transaction\1(?!\s*\()")
DRIVERS: Mapping[str, tuple[str, str]] = {
    "sqlite3": ("sqlite3", ""),
    "psycopg2": ("psycopg2", "psycopg2-binary"),
    "PyMySQL": ("pymysql", "PyMySQL"),
    "MySQLdb": ("MySQLdb", "mysqlclient"),
}
"""Module and package of each client library, by RelStorage's name."""


BACKENDS: Mapping[str, tuple[str, ...]] = {
    "sqlite": ("sqlite3",),
    "postgresql": ("psycopg2",),
    "mariadb": ("PyMySQL", "MySQLdb"),
}
"""Client libraries of each database, the default first. RelStorage's default `auto` may vary from start to start."""
TIERS_OF: Mapping[str, Mapping[Tier, Mapping[str, Value]]] = {
    # RelStorage uses SQLite's write-ahead log. NORMAL, its default, flushes at checkpoints, FULL at each commit.
    "sqlite": {Tier.PROCESS: {"synchronous": "normal"}, Tier.POWER: {"synchronous": "full"}},
    "postgresql": postgresql.TIERS,
    "mariadb": mysql.TIERS,
}
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    tier: {name: value for tiers in TIERS_OF.values() for name, value in tiers[tier].items()}
    for tier in (Tier.PROCESS, Tier.POWER)
}
"""Settings of all backends together, which have no names in common."""


def driver(options: Mapping[str, Value]) -> str:
    """Returns RelStorage's name of the client library."""
    return str(options["driver"] or BACKENDS[str(options["backend"])][0])


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    backend, name = str(options["backend"]), driver(options)
    if name not in BACKENDS[backend]:
        return f"driver={name} does not reach backend={backend}; there are: {', '.join(BACKENDS[backend])}"
    return None


def needs(options: Mapping[str, Value]) -> str | None:
    module, package = DRIVERS[driver(options)]
    if find_spec(module) is None:
        return f"needs {module} for backend={options['backend']}: {installation.command([package])}"
    if options["backend"] == "postgresql":
        return PROGRAM.explain_missing()
    if options["backend"] == "mariadb":
        return PROGRAMS[MARIADB].explain_missing()
    return None


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server | None:
    """Returns the server that Dyno starts; None for SQLite."""
    backend, cache = str(options["backend"]), options["server_cache_mib"]
    settings = {name: str(value) for name, value in TIERS_OF[backend][tier].items()}
    if backend == "postgresql":
        # A commit takes a lock for each changed object, and the number of locks is limited.
        settings |= {"shared_buffers": f"{cache}MB", "max_locks_per_transaction": str(LOCKS)}
        return PostgreSQL(home, settings, clients * CONNECTIONS)
    if backend == "mariadb":
        # An object's state is one value, which may be larger than the default limit of 16 MiB.
        settings |= {"innodb_buffer_pool_size": f"{cache}M", "max_allowed_packet": "1G"}
        return MariaDB(MARIADB, home, settings, clients * CONNECTIONS)
    return None


def mariadb_adapter(options: Options, address: Mapping[str, object]) -> MySQLAdapter:
    """Returns RelStorage's adapter for MySQL with two changes, without which RelStorage 4 can't use MariaDB.

    The adapter takes MariaDB 10.11 for MySQL 8.0.19 or later, and sends syntax that MariaDB lacks (`VALUES (...) AS
    excluded`). So the adapter gets the version of MySQL that MariaDB is compatible with. The tables with a history
    say `REFERENCES transaction` beside a column, without naming the other column. MySQL ignores this and MariaDB
    refuses it (errno 150), so it is left out; the tables are then the same as on MySQL.
    """
    from relstorage.adapters.mysql import MySQLAdapter
    from relstorage.adapters.mysql.schema import MySQLSchemaInstaller, MySQLVersionDetector

    class Detector(MySQLVersionDetector):  # type: ignore[misc]
        def _fetch_version_from_server(self, cursor: object) -> str:
            text = str(super()._fetch_version_from_server(cursor))
            if "MariaDB" in text:
                return "5.7.19"
            return text

    for name in dir(MySQLSchemaInstaller):
        statements = None
        if name.startswith("CREATE_"):
            statements = getattr(MySQLSchemaInstaller, name, None)
        if isinstance(statements, str):
            setattr(MySQLSchemaInstaller, name, _REFERENCES.sub("", statements))
        elif isinstance(statements, tuple):
            setattr(MySQLSchemaInstaller, name, tuple(_REFERENCES.sub("", each) for each in statements))
    return MySQLAdapter(options=options, version_detector=Detector(), **address)


SQLITE = "sqlite"
BLOBS = "blobs"
CACHE = "cache"
"""Directories in a store's home."""


class Relational(databases.Database):
    """A ZODB database on RelStorage. Each client process has its own cache, which all its connections share."""

    distributions = ("RelStorage",)

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any = None) -> None:
        from relstorage.options import Options
        from relstorage.storage import RelStorage

        self._home = home.absolute()
        self._tier = tier
        self._options = options
        self._server = server
        arguments: dict[str, object] = {
            "name": "dyno",
            "driver": driver(options),
            "keep_history": options["history"] == "keep",
            "blob_dir": str(self._home / BLOBS),
            # SQLite's adapter stores blobs as files. Servers store blobs in chunks and use the files as a cache.
            "shared_blob_dir": options["backend"] == SQLITE,
            "cache_local_mb": 0 if options["cache"] == "none" else options["cache_mib"],
        }
        if options["cache"] == "file":
            arguments["cache_local_dir"] = str(self._home / CACHE)
        chosen = Options(**arguments)
        super().__init__(RelStorage(self._adapter(chosen), options=chosen))

    def _adapter(self, chosen: Options) -> IRelStorageAdapter:
        """Creates the store's database if it doesn't exist; returns RelStorage's adapter for it."""
        name = namespace.store_name(self._home)
        if self._options["backend"] == SQLITE:
            from relstorage.adapters.sqlite.adapter import Sqlite3Adapter

            self._data = self._home / SQLITE
            self._data.mkdir(exist_ok=True)
            pragmas = dict(TIERS_OF[SQLITE][self._tier])
            pragmas["cache_size"] = -int(self._options["server_cache_mib"]) * 1024
            return Sqlite3Adapter(str(self._data), pragmas, options=chosen)
        if self._options["backend"] == "postgresql":
            from psycopg2.extensions import make_dsn
            from relstorage.adapters.postgresql import PostgreSQLAdapter

            with self._cursor() as cursor:
                identify = "SELECT oid FROM pg_database WHERE datname = %s"
                cursor.execute(identify, (name,))
                row = cursor.fetchone()
                if row is None:
                    cursor.execute(f"CREATE DATABASE {name}")
                    cursor.execute(identify, (name,))
                    row = cursor.fetchone()
            self._data = self._server.data / "base" / str(row[0])
            return PostgreSQLAdapter(dsn=make_dsn(**{**self._server.address, "dbname": name}), options=chosen)
        with self._cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
        self._data = self._server.data / name
        address = dict(self._server.address)
        if driver(self._options) != "PyMySQL":
            # Only PyMySQL has this argument. The other library uses no TLS on a socket.
            del address["ssl_disabled"]
        return mariadb_adapter(chosen, {**address, "database": name})

    def _cursor(self) -> AbstractContextManager[PostgresCursor | MySQLCursor]:
        return administrator(self._server, self._options["backend"])

    def forget(self) -> None:
        self.database.storage._cache.clear(load_persistent=False)

    def version(self) -> str:
        if self._options["backend"] == SQLITE:
            import sqlite3

            return f"{super().version()}, SQLite {sqlite3.sqlite_version}"
        # Read the version from the module, because distributions of several names have it.
        library, _ = DRIVERS[driver(self._options)]
        number = str(import_module(library).__version__).split()[0]
        server = "MariaDB"
        if self._options["backend"] == "postgresql":
            server = "PostgreSQL"
        with self._cursor() as cursor:
            cursor.execute("SHOW server_version" if server == "PostgreSQL" else "SELECT VERSION()")
            release = cursor.fetchone()[0].split()[0].split("-")[0]
        return f"{super().version()}, {library} {number}, {server} {release}"

    def settings(self) -> Mapping[str, Value | None]:
        names = ("backend", "history", "cache", "cache_mib", "server_cache_mib", "sharing")
        settings: dict[str, Value | None] = {name: self._options[name] for name in names}
        settings["driver"] = driver(self._options)
        # SQLite's settings are set for each connection; those of servers are read from the server.
        backend = str(self._options["backend"])
        settings |= TIERS_OF[backend][self._tier]
        if backend != SQLITE:
            show = "SHOW GLOBAL VARIABLES LIKE '{}'"
            if backend == "postgresql":
                show = "SHOW {}"
            with self._cursor() as cursor:
                for name in TIERS_OF[backend][self._tier]:
                    cursor.execute(show.format(name))
                    settings[name] = str(cursor.fetchone()[-1])
        return settings

    def files(self) -> Iterable[Path]:
        """Returns the files of the store's tables, indexes and blobs. A server's log is not included."""
        shared = (self._home / BLOBS,) if self._options["backend"] == SQLITE else ()
        return databases.files(self._data, *shared)

    def caveats(self) -> Iterable[Caveat]:
        if self._server is not None:
            yield Caveat("log-apart", "has its server's log beside its tables and indexes, and not in its size")
        if self._options["backend"] == "mariadb":
            yield Caveat("mended", "is RelStorage with two changes of Dyno's, without which it can't use MariaDB")


@contextmanager
def administrator(server: PostgreSQL | MariaDB, backend: object) -> Iterator[PostgresCursor | MySQLCursor]:
    """Yields a cursor on a connection as the server's administrator."""
    if backend == "postgresql":
        import psycopg2

        connection = psycopg2.connect(**server.address)
        connection.autocommit = True
    else:
        import pymysql

        connection = pymysql.connect(**server.address, autocommit=True)
    with closing(connection), closing(connection.cursor()) as cursor:
        yield cursor


def remove(home: Path, options: Mapping[str, Value], server: PostgreSQL | MariaDB | None) -> None:
    if server is not None:
        force = ""
        if options["backend"] == "postgresql":
            force = " WITH (FORCE)"
        with administrator(server, options["backend"]) as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {namespace.store_name(home)}{force}")


ENGINE = EngineSpec(
    name="relstorage",
    title="RelStorage, ZODB in a SQL database",
    opener=Relational,
    server=ServerSpec(serve, remove=remove, library_works=True),
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    # Users run RelStorage at this tier, which is also the tier of ZODB's other storages.
    default_tier=Tier.POWER,
    installation=Installation(
        modules=("ZODB", "relstorage"),
        requires=(*databases.REQUIRES, "RelStorage>=4", "psycopg2-binary>=2.9", "PyMySQL>=1.1"),
        needs=needs,
    ),
    versions=Versions((Wheel("RelStorage", earliest="3"),)),
    options=(
        Setting("backend", choice(*BACKENDS), "sqlite", "the database: in the process, or a server of Dyno's own"),
        Setting("driver", choice("", *DRIVERS), "", "library of the database's; by default the backend's first"),
        Setting("history", choice("keep", "free"), "keep", "whether old states are kept until a pack"),
        Setting("cache", choice("memory", "file", "none"), "memory", "of each client; file: kept when it is closed"),
        Setting("cache_mib", integer(1), 256, "size of that cache, in MiB (RelStorage's default: 10)"),
        databases.SHARING,
        Setting("server_cache_mib", integer(5), 256, "cache of the database: shared buffers, or buffer pool, in MiB"),
    ),
    refuse=refuse,
    crashes=CrashSpec(databases.PACK),
    clients="processes",
    sharing=databases.get_sharing,
)
