"""PostgreSQL by psycopg 3: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Nodes, Server
from dyno.contracts.model import Caveat, Refused, Tier, Value, strongest
from dyno.engines.postgresql.server import PostgreSQL
from dyno.engines.postgresql.standbys import Replicated
from dyno.host.installation import version
from dyno.servers import namespace, program_option, set_option, user_server
from dyno.servers.cluster import KEEPS
from dyno.servers.user_server import URL, UserServer
from dyno.text.passwords import mask_password

CACHE_MIB = 256
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A commit returns before its log is written, at most some 0.6 s later.
    Tier.VOLATILE: {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"},
    # The log is handed to the kernel at each commit. Pages torn by a loss of power are this tier's lot.
    Tier.PROCESS: {"fsync": "off", "synchronous_commit": "on", "full_page_writes": "off"},
    Tier.POWER: {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"},
}
SHOWN = (
    *(*TIERS[Tier.POWER], "wal_sync_method", "wal_level", "wal_compression", "max_wal_size", "checkpoint_timeout"),
    *("shared_buffers", "huge_pages", "jit", "autovacuum", "max_connections"),
)
UNVERIFIED = ("disable", "allow", "prefer")
"""Values of `sslmode` with which libpq checks no certificate against `sslrootcert`."""
REPLICATED = ("synchronous_standby_names",)
_settings = set_option.refusing("shared_buffers", "cache_mib", CACHE_MIB)
RELATIONS = "FROM pg_class WHERE relnamespace = %s::regnamespace"


INSUFFICIENT_PRIVILEGE = "42501"


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return UserServer(str(options[URL]))
    settings = {name: str(value) for name, value in TIERS[tier].items()}
    settings["shared_buffers"] = f"{options['cache_mib']}MB"
    settings |= set_option.given(options)
    if options["replicas"]:
        how = int(str(options["replicas"])), str(options["acknowledged"])
        return Replicated(home, settings, clients, program_option.given(options), *how)
    return PostgreSQL(home, settings, clients, program_option.given(options))


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.refuse`."""
    if options["replicas"] and options[URL]:
        return "replicas are of a server of Dyno's own, and url names one of yours: leave one of them out"
    if options["acknowledged"] != "none" and not options["replicas"]:
        return f"acknowledged={options['acknowledged']} wants a standby that does it: say replicas=1"
    return _settings(tier, options)


class Postgres:
    """One schema on the server; every client has a connection of its own."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._tier, self._server, self.options = tier, server, options
        self._several = isinstance(server, Nodes)
        self._schema = namespace.of(home)
        self.connection = _connect(server)
        try:
            self._prepare()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self) -> None:
        execute = self.connection.execute
        if not self._server.own:
            if why := weaker(self._tier, self.durability()):
                raise Refused(f"the server has {why}, so that it can't give tier {self._tier.value}")
            names = [name for (name,) in execute("SELECT nspname FROM pg_namespace").fetchall()]
            for name in namespace.abandoned(names):
                execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")

    def connect(self) -> Any:
        """A connection whose statements are about this store. That is agreed when it begins, and is no setting that
        would be changed in a session."""
        return _connect(self._server, f"-c search_path={self._schema}")

    def environment(self) -> Mapping[str, str]:
        """libpq's variables, for a program whose statements are to be about this store. Raises Refused for a user's
        own server, whose password is nobody else's."""
        if not self._server.own:
            raise Refused("outside tools are let loose on servers of Dyno's own alone: leave url out")
        set_option = {
            f"PG{name.upper().replace('DBNAME', 'DATABASE')}": v for name, v in self._server.address.items()
        }
        return {**set_option, "PGOPTIONS": f"-c search_path={self._schema}"}

    def show(self, name: str) -> str:
        (value,) = self.connection.execute(f"SHOW {name}").fetchone()
        return str(value)

    def _setting(self, name: str) -> str | None:
        """Returns the value as `SHOW` prints it; None for a name that the server does not know."""
        (value,) = self.connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
        return None if value is None else str(value)

    def close(self) -> None:
        self.connection.close()

    def version(self) -> str:
        from psycopg import pq

        server = self.show("server_version").split()[0]
        library = f"{pq.version() // 10_000}.{pq.version() % 10_000}"
        return f"PostgreSQL {server} (psycopg {version('psycopg')}, libpq {library})"

    def settings(self) -> Mapping[str, Value | None]:
        names = dict.fromkeys((*SHOWN, *(REPLICATED if self._several else ()), *set_option.to_read(self.options)))
        told: dict[str, Value | None] = {name: self._setting(name) for name in names}
        if self._several:
            told["nodes"] = self._server.count
        reached = user_server.transport(self._server, self._encrypted())
        return {**told, "client": self.options["client"], **reached}

    def durability(self) -> dict[str, str]:
        """The settings that decide what a commit survives, as they are for this user and database."""
        return {name: self.show(name) for name in TIERS[Tier.POWER]}

    def gives(self) -> Tier:
        found = self.durability()
        return strongest(tier for tier in Tier if weaker(tier, found) is None)

    def _encrypted(self) -> bool:
        return bool(self.connection.pgconn.ssl_in_use)

    def files(self) -> Iterable[Path]:
        """Of its tables and indexes, on all nodes: the log is beside them, and of a size that depends on other
        things."""
        if not self._server.own:
            return
        nodes = self._server.nodes if self._several else [self._server]
        rows = self.connection.execute(f"SELECT pg_relation_filepath(oid) {RELATIONS}", (self._schema,)).fetchall()
        for path in (node.data / row[0] for node in nodes for row in rows if row[0]):
            yield path
            # Further segments of 1 GiB, the map of free space and the map of visibility.
            yield from (*path.parent.glob(f"{path.name}.*"), *path.parent.glob(f"{path.name}_*"))

    def checkpoint(self) -> None:
        """As the server does it by itself every few minutes."""
        self.connection.execute("CHECKPOINT")

    def upkeep(self) -> None:
        """Statistics of its tables, and which of their pages everybody sees all of: as `pgbench` has it before it
        measures. Without them the planner guesses, until autovacuum comes round, which is once a minute."""
        tables = self.connection.execute(f"SELECT relname {RELATIONS} AND relkind = 'r'", (self._schema,)).fetchall()
        for (name,) in tables:
            self.connection.execute(f"VACUUM (ANALYZE) {self._schema}.{name}")

    def caveats(self) -> Iterable[Caveat]:
        if self.options[set_option.SET]:
            yield set_option.CAVEAT
        if self._server.own:
            if self._several and self._server.survives:
                yield KEEPS
            elif self._several:
                yield Caveat("node", "may lose what it acknowledged when its primary dies for good, at any tier")
            yield Caveat("log-apart", "has its write-ahead log beside its tables and indexes, and not in its size")
        else:
            yield from user_server.caveats(self._encrypted(), user_server.declared(self.gives(), self.durability()))


def _connect(server: Any, options: str = "") -> Any:
    """A connection with further command-line options for its session. Raises Refused."""
    import psycopg

    try:
        if server.own:
            return psycopg.connect(**server.address, options=options, autocommit=True)
        connection = psycopg.connect(_verified(server.url), options=_with(server.url, options), autocommit=True)
    except (psycopg.OperationalError, psycopg.ProgrammingError) as error:
        raise user_server.unreachable(server, error) from None
    try:
        _refuse_pooler(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _with(url: str, options: str) -> str:
    """The options of the user's own session, by libpq's rules, and these after them."""
    from psycopg.conninfo import conninfo_to_dict

    own = conninfo_to_dict(url).get("options") or os.environ.get("PGOPTIONS", "")
    return f"{own} {options}".strip()


def _refuse_pooler(connection: Any) -> None:
    """Raises Refused for PgBouncer and its like: they give a session to others later, with the prepared statements
    and temporary tables that Dyno needs. They report a process to the client that is not the server's."""
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    if pid != connection.info.backend_pid:
        raise Refused(
            "a connection pooler, such as PgBouncer, answers there, and would hand on sessions as Dyno left them:"
            " name the address of the server itself"
        )


def _verified(url: str) -> str:
    """Returns the address. Raises Refused for an authority that libpq would ignore: by default it accepts any
    certificate, and goes on without TLS if the server has none."""
    from psycopg.conninfo import conninfo_to_dict

    set_option = conninfo_to_dict(url)
    mode = str(set_option.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer")
    if set_option.get("sslrootcert") not in (None, "system") and mode in UNVERIFIED:
        raise Refused(
            f"{mask_password(url)}: sslmode={mode} ignores sslrootcert; add sslmode=verify-full or verify-ca"
        )
    return url


def weaker(tier: Tier, found: Mapping[str, str]) -> str | None:
    """The setting of a user's own server by which it can't give the tier; None if it can."""
    wanted = {Tier.VOLATILE: (), Tier.PROCESS: ("synchronous_commit",), Tier.POWER: tuple(found)}[tier]
    return next((f"{name}={found[name]}" for name in wanted if found[name] == "off"), None)


def missing_right(error: Exception) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.missing_right`. libpq's own calls raise a RuntimeError without a code."""
    said = " ".join(str(error).split())
    if getattr(error, "sqlstate", None) != INSUFFICIENT_PRIVILEGE and "ERROR: permission denied" not in said:
        return None
    database = re.search(r"permission denied for database (\S+)", said)
    return f"CREATE on database {database[1]} ({said})" if database else said


def removal(name: str, options: Mapping[str, Value]) -> str:
    return shlex.join(["psql", str(options[URL]), "-c", f"DROP SCHEMA {name} CASCADE"])


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    connection = _connect(server)
    connection.execute(f"DROP SCHEMA IF EXISTS {namespace.of(home)} CASCADE")
    connection.close()
