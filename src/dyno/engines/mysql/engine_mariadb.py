"""MariaDB by PyMySQL: a server of Dyno's own, or a user's by its address. What it shares with MySQL is in
`dyno.engines.mysql.innodb` and `dyno.engines.mysql.records`."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Tier
from dyno.engines.mysql import client, innodb, oltp
from dyno.engines.mysql.server_galera import NODE_SECONDS
from dyno.engines.mysql.server_mariadb import MARIADB

ENGINE = EngineSpec(
    name="mariadb",
    title="MariaDB, a SQL server (PyMySQL)",
    opener=innodb.opener(MARIADB),
    ports={
        **innodb.PORTS,
        "transactions": PortSpec(oltp.Transactions, packages=("sysbench",), needs=oltp.missing),
    },
    tiers=innodb.TIERS,
    default_tier=Tier.PROCESS,
    modules=("pymysql",),
    requires=client.REQUIRES,
    packages=("mariadb-server-core",),
    options=innodb.options(MARIADB, "mariadb", "mysql"),
    server=innodb.server(MARIADB),
    refuse=innodb.refuse,
    gives=innodb.InnoDB.gives,
    remove=innodb.remove,
    removal=innodb.removal,
    missing_right=innodb.missing_right,
    upkeep=innodb.InnoDB.upkeep,
    seldom=Maintenance("checkpoint", innodb.InnoDB.checkpoint),
    starting=lambda options: NODE_SECONDS * (int(str(options["nodes"])) - 1),
    needs=innodb.needs(MARIADB),
    clients="processes",
    by_default=False,
)
