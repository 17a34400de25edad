"""RelStorage over each of its databases: what an engine's opener gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.relstorage import mended
from dyno.engines.relstorage.backends import BACKENDS, DRIVERS, driver
from dyno.engines.zodb import databases
from dyno.servers import namespace

SQLITE, BLOBS, CACHE = "sqlite", "blobs", "cache"
"""Directories in a store's home."""


class Relational:
    """One database; each client that is a process has a cache of its own, which its connections share."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any = None) -> None:
        from relstorage.options import Options
        from relstorage.storage import RelStorage

        self._home, self._tier, self._options, self._server = home.absolute(), tier, options, server
        backend = str(options["backend"])
        given: dict[str, Any] = {
            "name": "dyno",
            "driver": driver(options),
            "keep_history": options["history"] == "keep",
            "blob_dir": str(self._home / BLOBS),
            # In SQLite a blob can't be stored; on a server its chunks are, and files in the directory are a cache.
            "shared_blob_dir": backend == SQLITE,
            "cache_local_mb": 0 if options["cache"] == "none" else options["cache_mib"],
        }
        if options["cache"] == "file":
            given["cache_local_dir"] = str(self._home / CACHE)
        adapters: Mapping[str, Callable[[Any], Any]] = {
            SQLITE: self._sqlite,
            "postgresql": self._postgresql,
            "mariadb": self._mariadb,
        }
        wanted = Options(**given)
        self._data: Path
        self.database = databases.database(RelStorage(adapters[backend](wanted), options=wanted))

    # -- adapters -------------------------------------------------------------------------------------------

    def _sqlite(self, wanted: Any) -> Any:
        from relstorage.adapters.sqlite.adapter import Sqlite3Adapter

        self._data = self._home / SQLITE
        self._data.mkdir(exist_ok=True)
        pragmas = dict(BACKENDS[SQLITE].tiers[self._tier])
        pragmas["cache_size"] = -int(self._options["server_cache_mib"]) * 1024
        return Sqlite3Adapter(str(self._data), pragmas, options=wanted)

    def _postgresql(self, wanted: Any) -> Any:
        from psycopg2.extensions import make_dsn
        from relstorage.adapters.postgresql import PostgreSQLAdapter

        name = namespace.of(self._home)
        with closing(_postgres(self._server)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT oid FROM pg_database WHERE datname = %s", (name,))
            found = cursor.fetchone()
            if found is None:
                cursor.execute(f"CREATE DATABASE {name}")
                cursor.execute("SELECT oid FROM pg_database WHERE datname = %s", (name,))
                found = cursor.fetchone()
        self._data = self._server.data / "base" / str(found[0])
        return PostgreSQLAdapter(dsn=make_dsn(**{**self._server.address, "dbname": name}), options=wanted)

    def _mariadb(self, wanted: Any) -> Any:
        name = namespace.of(self._home)
        with closing(_maria(self._server)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
        self._data = self._server.data / name
        address = dict(self._server.address)
        if driver(self._options) != "PyMySQL":
            # A word of PyMySQL's. By a socket the other one uses no TLS.
            del address["ssl_disabled"]
        return mended.adapter(wanted, {**address, "database": name})

    # -- see `dyno.contracts.engine.Engine`
    # -----------------------------------------------------------------------------

    def close(self) -> None:
        self.database.close()

    def forget(self) -> None:
        self.database.storage._cache.clear(load_persistent=False)

    def version(self) -> str:
        return f"{databases.versions('RelStorage')}, {self._database_version()}"

    def _database_version(self) -> str:
        if self._options["backend"] == SQLITE:
            import sqlite3

            return f"SQLite {sqlite3.sqlite_version}"
        # By the module: of the same one there are distributions of several names.
        library = DRIVERS[driver(self._options)].module
        told = str(import_module(library).__version__).split()[0]
        return f"{library} {told}, {self._server_version()}"

    def _server_version(self) -> str:
        kind, connect = ("PostgreSQL", _postgres) if self._options["backend"] == "postgresql" else ("MariaDB", _maria)
        asked = "SHOW server_version" if kind == "PostgreSQL" else "SELECT VERSION()"
        with closing(connect(self._server)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(asked)
            return f"{kind} {cursor.fetchone()[0].split()[0].split('-')[0]}"

    def settings(self) -> Mapping[str, Value | None]:
        names = ("backend", "history", "cache", "cache_mib", "server_cache_mib", "sharing")
        told: dict[str, Value | None] = {name: self._options[name] for name in names}
        return {**told, "driver": driver(self._options), **self._durability()}

    def _durability(self) -> Mapping[str, Value | None]:
        """The settings that give the tier: read from the server; those of SQLite are each connection's own."""
        backend = str(self._options["backend"])
        wanted = BACKENDS[backend].tiers[self._tier]
        if backend == SQLITE:
            return wanted
        found: dict[str, Value | None] = {}
        with (
            closing(_postgres(self._server) if backend == "postgresql" else _maria(self._server)) as connection,
            closing(connection.cursor()) as cursor,
        ):
            for name in wanted:
                cursor.execute(f"SHOW {name}" if backend == "postgresql" else f"SHOW GLOBAL VARIABLES LIKE '{name}'")
                found[name] = str(cursor.fetchone()[-1])
        return found

    def files(self) -> Iterable[Path]:
        """Of its tables and indexes, and blobs that are files; a server's log is beside them."""
        shared = (self._home / BLOBS,) if self._options["backend"] == SQLITE else ()
        return databases.files(self._data, *shared)

    def caveats(self) -> Iterable[Caveat]:
        if self._server is not None:
            yield Caveat("log-apart", "has its server's log beside its tables and indexes, and not in its size")
        if self._options["backend"] == "mariadb":
            yield Caveat("mended", "is RelStorage with two changes of Dyno's, without which it can't use MariaDB")


def _postgres(server: Any) -> Any:
    """An administrator's connection."""
    import psycopg2

    connection = psycopg2.connect(**server.address)
    connection.autocommit = True
    return connection


def _maria(server: Any) -> Any:
    import pymysql

    return pymysql.connect(**server.address, autocommit=True)


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    """See `dyno.contracts.engine.EngineSpec.remove`."""
    if server is None:
        return
    postgres = options["backend"] == "postgresql"
    with (
        closing(_postgres(server) if postgres else _maria(server)) as connection,
        closing(connection.cursor()) as one,
    ):
        one.execute(f"DROP DATABASE IF EXISTS {namespace.of(home)}{' WITH (FORCE)' if postgres else ''}")
