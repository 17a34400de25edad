"""A store in InnoDB, on a MariaDB or a MySQL server: what an engine's opener gives, alike for both.

What a suite stores may not be put here: that is `mysqltable`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Nodes, PortSpec, Server
from dyno.contracts.model import Caveat, Refused, Tier, Value, strongest
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.mysql import client, server_galera
from dyno.engines.mysql.client import CLIENTS, Client, connect, said
from dyno.engines.mysql.server_galera import Galera
from dyno.engines.mysql.server_mariadb import INSTALL, KINDS, MARIADB, MYSQL, OURS, MariaDB, missing
from dyno.servers import namespace, program_option, set_option, user_server
from dyno.servers.cluster import KEEPS
from dyno.servers.user_server import URL, UserServer
from dyno.suites.arrays import port as arrays
from dyno.suites.records.port import COLUMNS
from dyno.suites.series import port as series

PORTS: Mapping[str, PortSpec] = {
    "records": PortSpec("dyno.engines.mysql.records:opened", caveats=(COLUMNS,)),
    "arrays": PortSpec(
        "dyno.engines.mysql.arrays:Arrays", modules=arrays.MODULES, requires=arrays.REQUIRES, clients="one"
    ),
    "series": PortSpec(
        "dyno.engines.mysql.series:Series", modules=series.MODULES, requires=series.REQUIRES, clients="one"
    ),
}
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A commit returns before its log leaves the server's memory: that is written and flushed about once a second.
    Tier.VOLATILE: {"innodb_flush_log_at_trx_commit": 0, "innodb_doublewrite": "OFF"},
    # The log is handed to the kernel at each commit, and flushed about once a second, by a thread of the server's.
    # The doublewrite stays: SIGKILL may cut the write of a page of 16 KiB in two.
    Tier.PROCESS: {"innodb_flush_log_at_trx_commit": 2, "innodb_doublewrite": "ON"},
    # The log is written at each commit, past the page cache where MariaDB's default is left, and flushed (fdatasync).
    Tier.POWER: {"innodb_flush_log_at_trx_commit": 1, "innodb_doublewrite": "ON"},
}
SHOWN = (
    *("innodb_flush_log_at_trx_commit", "innodb_flush_log_at_timeout", "innodb_doublewrite", "innodb_flush_method"),
    *("innodb_log_file_buffering", "innodb_log_file_size", "innodb_redo_log_capacity", "innodb_log_buffer_size"),
    *("innodb_buffer_pool_size", "innodb_page_size", "innodb_use_native_aio", "log_bin", "sync_binlog"),
    *("max_allowed_packet", "performance_schema", "query_cache_type", "transaction_isolation", "version_comment"),
)
"""What decides speed or durability; each server has most of them."""
FLUSHED, HANDED_OVER, EVERY = ("1", "3"), ("1", "2", "3"), ("0", "1", "2", "3")
"""At a commit, by the value of innodb_flush_log_at_trx_commit."""
DOUBLEWRITE_OFF = ("OFF", "DETECT_ONLY")
NO_FLUSH = ("nosync", "littlesync")
DURABILITY = (
    *("innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_flush_method", "log_bin", "sync_binlog"),
)
"""What `weaker` looks at."""
NEVER = ("debug-no-sync", "innodb-flush-log-at-timeout", "sync-binlog")
"""Beside the tiers' own: what would take a tier back."""
DATABASE_DENIED = 1044
DENIED = (1142, 1143, 1227, 1370, 1698)
"""Of a command, a column, a global privilege, a routine, a user: the server's error names the right."""
CACHE_MIB = 256
NODES = "nodes"
REPLICATED = ("wsrep_slave_threads", "wsrep_sync_wait", "wsrep_certify_nonpk", "binlog_format")
"""What decides speed beside it, of a cluster."""
_settings = set_option.refusing("innodb_buffer_pool_size", "cache_mib", CACHE_MIB)


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.refuse`."""
    if options[URL] and _nodes(options) > 1:
        return f"{NODES} are of a cluster of Dyno's own, and url names a server of yours: leave one of them out"
    return _settings(tier, options)


def _nodes(options: Mapping[str, Value]) -> int:
    """Of MySQL's there is one."""
    return int(str(options.get(NODES, 1)))


FIRST_PAGE = Caveat(
    "first-page", "may find a table corrupt after a cut of power that has torn its first page: seen of 10.11.19"
)
"""See docs/crash.md. Each other page is restored from the doublewrite buffer."""


class InnoDB:
    """One database on the server; every client has a connection of its own."""

    def __init__(self, wanted: str, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._wanted, self._tier, self._server, self._options = wanted, tier, server, options
        self._several = isinstance(server, Nodes)
        self._database = namespace.of(home)
        self._connection = self._connected()
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _connected(self, loading: bool = False) -> Client:
        return connect(self._server, str(self._options["client"]), loading)

    def _prepare(self) -> None:
        execute = self._connection.execute
        if why := weaker(self._tier, self._variables()):
            raise Refused(f"the server has {why}, so that it can't give tier {self._tier.value}")
        if self._server.own:
            execute(f"CREATE DATABASE IF NOT EXISTS {self._database}")
            return
        names = [name for (name,) in execute("SHOW DATABASES").fetchall()]
        for name in namespace.abandoned(names):
            execute(f"DROP DATABASE IF EXISTS {name}")
        execute(f"CREATE DATABASE IF NOT EXISTS {self._database}")

    def connect(self, loading: bool = False) -> Client:
        """A connection whose statements are about this store, and on which files of the client's may be loaded."""
        found = self._connected(loading)
        found.execute(f"USE {self._database}")
        return found

    def reached_by(self) -> Mapping[str, str]:
        """Socket, user and database, for a program whose statements are to be about this store. Raises Refused for a
        user's own server, whose password is nobody else's."""
        if not self._server.own:
            raise Refused("outside tools are let loose on servers of Dyno's own alone: leave url out")
        address = self._server.address
        return {"socket": str(address["unix_socket"]), "user": str(address["user"]), "db": self._database}

    def _variables(self) -> dict[str, str]:
        return dict(self._connection.execute("SHOW GLOBAL VARIABLES").fetchall())

    def close(self) -> None:
        self._connection.close()

    def _named(self) -> tuple[str, str]:
        """Which server it is, and its version."""
        (told,) = self._connection.execute("SELECT VERSION()").fetchone() or ("",)
        return (MARIADB, told.split("-")[0]) if MARIADB in told else (MYSQL, told)

    def version(self) -> str:
        return f"{' '.join(self._named())} ({self._connection.library})"

    def settings(self) -> Mapping[str, Value | None]:
        found = self._variables()
        more = REPLICATED if self._several else ()
        names = (*SHOWN, *more, *(name.replace("-", "_") for name in set_option.to_read(self._options)))
        told: dict[str, Value | None] = {name: found[name] for name in names if name in found}
        if self._several:
            told["nodes"] = self._server.count
        return {
            **told,
            "client": self._options["client"],
            **user_server.transport(self._server, self._connection.encrypted),
        }

    def gives(self) -> Tier:
        found = self._variables()
        return strongest(tier for tier in Tier if weaker(tier, found) is None)

    def checkpoint(self) -> None:
        """As the server does it by itself when its log fills up: all changed pages are written."""
        self._connection.execute("SET GLOBAL innodb_log_checkpoint_now = ON").fetchall()

    def upkeep(self) -> None:
        """Statistics of its tables. Without them the server guesses, until it makes some in the background."""
        for (name,) in self._connection.execute(f"SHOW TABLES FROM {self._database}").fetchall():
            self._connection.execute(f"ANALYZE TABLE {self._database}.{name}").fetchall()

    def files(self) -> Iterable[Path]:
        """Of its tables and indexes, on all nodes: the logs are beside them, and of a size that depends on other
        things."""
        nodes = self._server.nodes if self._several else [self._server] if self._server.own else []
        return chain.from_iterable((node.data / self._database).iterdir() for node in nodes)

    def caveats(self) -> Iterable[Caveat]:
        if self._options[set_option.SET]:
            yield set_option.CAVEAT
        kind, _ = self._named()
        if kind != self._wanted:
            yield user_server.other_product(self._wanted.lower(), kind)
        if kind == MARIADB and self._tier is Tier.POWER:
            yield FIRST_PAGE
        if self._several:
            yield KEEPS
        if self._server.own:
            yield Caveat("log-apart", "has its redo and undo logs beside its tables and indexes, and not in its size")
        else:
            variables = self._variables()
            told = user_server.declared(
                self.gives(), {name: variables[name] for name in DURABILITY if name in variables}
            )
            yield from user_server.caveats(self._connection.encrypted, told)


def weaker(tier: Tier, found: Mapping[str, str]) -> str | None:
    """The setting of a user's own server by which it can't give the tier; None where it can."""
    log, doublewrite = found["innodb_flush_log_at_trx_commit"], found["innodb_doublewrite"]
    if log not in {Tier.VOLATILE: EVERY, Tier.PROCESS: HANDED_OVER, Tier.POWER: FLUSHED}[tier]:
        return f"innodb_flush_log_at_trx_commit={log}"
    if tier is not Tier.VOLATILE and doublewrite in DOUBLEWRITE_OFF:
        return f"innodb_doublewrite={doublewrite}"
    if tier is Tier.POWER and found["innodb_flush_method"] in NO_FLUSH:
        return f"innodb_flush_method={found['innodb_flush_method']}"
    # What is not in the binary log after a loss of power is rolled back, though InnoDB has it.
    if tier is Tier.POWER and found["log_bin"] == "ON" and found["sync_binlog"] != "1":
        return f"log_bin=ON and sync_binlog={found['sync_binlog']}"
    return None


def opener(wanted: str) -> Callable[..., InnoDB]:
    """An engine's opener, for a server of the kind that it is about."""

    def opened(home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> InnoDB:
        return InnoDB(wanted, home, tier, options, server)

    return opened


def server(wanted: str) -> Callable[[Path, Tier, Mapping[str, Value], int], Server]:
    """What starts an engine's server, of that kind."""

    def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
        if options[URL]:
            return UserServer(str(options[URL]))
        settings = {name: str(value) for name, value in TIERS[tier].items()}
        settings["innodb_buffer_pool_size"] = f"{options['cache_mib']}M"
        settings |= set_option.given(options)
        if (nodes := _nodes(options)) > 1:
            return Galera(home, settings, clients, program_option.given(options), nodes)
        return MariaDB(wanted, home, settings, clients, program_option.given(options))

    return serve


def needs(wanted: str) -> Callable[[Mapping[str, Value]], str | None]:
    """What tells what is missing here: a server of that kind, or a client's library."""

    def lacking(options: Mapping[str, Value]) -> str | None:
        return client.missing(str(options["client"]), INSTALL[wanted]) or (
            None if options[URL] else missing(wanted, program_option.given(options)) or _cluster(options)
        )

    return lacking


def _cluster(options: Mapping[str, Value]) -> str | None:
    return server_galera.missing() if _nodes(options) > 1 else None


def missing_right(error: Exception) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.missing_right`. Both libraries have the server's number, each in its own
    place."""
    number = getattr(error, "errno", error.args[0] if error.args else None)
    if number == DATABASE_DENIED:
        return f"on databases called dyno_% ({said(error)})"
    return said(error) if number in DENIED else None


def removal(name: str, options: Mapping[str, Value]) -> str:
    """Either server's client has the name and the flags of MySQL's."""
    at = client.address_of(str(options[URL]))
    flags = {"unix_socket": "--socket", "host": "--host", "port": "--port", "user": "--user"}
    words = [f"{flag}={at[name]}" for name, flag in flags.items() if name in at]
    return shlex.join(["mysql", *words, "--password", "-e", f"DROP DATABASE {name}"])


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    connection = connect(server, str(options["client"]))
    connection.execute(f"DROP DATABASE IF EXISTS {namespace.of(home)}")
    connection.close()


def options(wanted: str, *schemes: str) -> tuple[Setting, ...]:
    """Those of an engine whose server is of that kind; addresses begin with one of `schemes`."""
    cluster = Setting(
        NODES, integer(1, server_galera.MOST), 1, "servers of Dyno's own, in a Galera cluster if several"
    )
    return (
        user_server.setting(*schemes),
        Setting("client", choice(*CLIENTS), CLIENTS[0], "c: by the C extension of MySQL Connector/Python"),
        Setting("cache_mib", integer(5), CACHE_MIB, "buffer pool of a server of Dyno's own, in MiB"),
        set_option.setting("system variables", (*TIERS[Tier.POWER], *NEVER, *OURS, *server_galera.OURS)),
        KINDS[wanted].setting,
        *([cluster] if wanted == MARIADB else []),
    )
