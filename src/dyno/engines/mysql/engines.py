"""Declarations of MariaDB and MySQL."""

import importlib.util
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec, Server
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.mysql import server_galera, server_mariadb
from dyno.engines.mysql.client import CLIENTS, REQUIRES, parse_address
from dyno.engines.mysql.innodb import CACHE_MIB, CHECKPOINT, NEVER, NODES, TIERS, InnoDB, nodes_of
from dyno.engines.mysql.server_galera import MOST, NODE_SECONDS, Galera
from dyno.engines.mysql.server_mariadb import OURS, PROGRAMS, MariaDB
from dyno.engines.sysbench.program import missing as missing_sysbench
from dyno.servers import program_option, set_option
from dyno.servers.server_engine import server_engine
from dyno.servers.user_server import URL
from dyno.suites.arrays import port as arrays
from dyno.suites.records.port import COLUMNS
from dyno.suites.series import port as series

PORTS: Mapping[str, PortSpec] = {
    "records": PortSpec("dyno.engines.mysql.tables:Table", caveats=(COLUMNS,)),
    "arrays": PortSpec(
        "dyno.engines.mysql.tables:Arrays", modules=arrays.MODULES, requires=arrays.REQUIRES, clients="one"
    ),
    "series": PortSpec(
        "dyno.engines.mysql.tables:Series", modules=series.MODULES, requires=series.REQUIRES, clients="one"
    ),
}


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    if options[URL] and nodes_of(options) > 1:
        return f"{NODES} are of a cluster of Dyno's own, and url names a server of yours: leave one of them out"
    return None


def _start(product: str, home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    settings = set_option.combined(TIERS[tier], options, innodb_buffer_pool_size=f"{options['cache_mib']}M")
    path = program_option.given(options)
    if (nodes := nodes_of(options)) > 1:
        return Galera(home, settings, clients, path, nodes)
    return MariaDB(product, home, settings, clients, path)


def declaration(product: str, *schemes: str, options: tuple[Setting, ...] = (), **fields: Any) -> EngineSpec:
    """Returns the declaration of the engine for MariaDB or MySQL. `schemes` are those of a user's server."""

    def needs(options: Mapping[str, Value]) -> str | None:
        if options["client"] == "c" and importlib.util.find_spec("_mysql_connector") is None:
            return f"needs MySQL Connector/Python for client=c: {PROGRAMS[product].install}"
        return server_galera.missing() if nodes_of(options) > 1 else None

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
        needs=needs,
        tiers=TIERS,
        default_tier=Tier.PROCESS,
        modules=("pymysql",),
        requires=REQUIRES,
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
        upkeep=InnoDB.upkeep,
        # A checkpoint writes all changed pages, as the server does when its log fills up.
        seldom=Maintenance("checkpoint", lambda engine: engine.client.execute(CHECKPOINT).fetchall()),
        clients="processes",
        **fields,
    )


MYSQL = declaration(
    server_mariadb.MYSQL,
    "mysql",
    ports=PORTS,
    packages=("mysql-server-core-8.0",),
    untested="no MySQL server could be had to run it on; it was run on MariaDB, which the row then names",
)


MARIADB = declaration(
    server_mariadb.MARIADB,
    *("mariadb", "mysql"),
    ports={
        **PORTS,
        "transactions": PortSpec(
            "dyno.engines.mysql.tables:Transactions", packages=("sysbench",), needs=lambda options: missing_sysbench()
        ),
    },
    packages=("mariadb-server-core",),
    options=(Setting(NODES, integer(1, MOST), 1, "servers of Dyno's own, in a Galera cluster if several"),),
    starting=lambda options: NODE_SECONDS * (int(str(options[NODES])) - 1),
)
