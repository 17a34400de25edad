"""MySQL by PyMySQL: a server of Dyno's own, or a user's by its address. What it shares with MariaDB is in
`dyno.engines.mysql.innodb` and `dyno.engines.mysql.records`."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, Maintenance
from dyno.contracts.model import Tier
from dyno.engines.mysql import client, innodb
from dyno.engines.mysql.server_mariadb import MYSQL

ENGINE = EngineSpec(
    name="mysql",
    title="MySQL, a SQL server (PyMySQL)",
    opener=innodb.opener(MYSQL),
    ports=innodb.PORTS,
    tiers=innodb.TIERS,
    default_tier=Tier.PROCESS,
    modules=("pymysql",),
    requires=client.REQUIRES,
    packages=("mysql-server-core-8.0",),
    options=innodb.options(MYSQL, "mysql"),
    server=innodb.server(MYSQL),
    refuse=innodb.refuse,
    gives=innodb.InnoDB.gives,
    remove=innodb.remove,
    removal=innodb.removal,
    missing_right=innodb.missing_right,
    upkeep=innodb.InnoDB.upkeep,
    seldom=Maintenance("checkpoint", innodb.InnoDB.checkpoint),
    needs=innodb.needs(MYSQL),
    clients="processes",
    by_default=False,
    untested="no MySQL server could be had to run it on; it was run on MariaDB, which the row then names",
)
