"""MySQL by PyMySQL: a server of Dyno's own, or a user's by its address. What it shares with MariaDB is in
`dyno.engines._shared.innodb` and `dyno.engines._shared.mysqltable`."""

from __future__ import annotations

from dyno.engine import EngineSpec, Seldom
from dyno.engines._shared import innodb, mysqlclient
from dyno.model import Tier
from dyno.servers.mariadb import MYSQL

ENGINE = EngineSpec(
    name="mysql",
    title="MySQL, a SQL server (PyMySQL)",
    opener=innodb.opener(MYSQL),
    ports=innodb.PORTS,
    tiers=innodb.TIERS,
    default_tier=Tier.PROCESS,
    modules=("pymysql",),
    requires=mysqlclient.REQUIRES,
    packages=("mysql-server-core-8.0",),
    options=innodb.options(MYSQL, "mysql"),
    server=innodb.server(MYSQL),
    refuse=innodb.refuse,
    gives=innodb.InnoDB.gives,
    remove=innodb.remove,
    removal=innodb.removal,
    missing_right=innodb.missing_right,
    upkeep=innodb.InnoDB.upkeep,
    seldom=Seldom("checkpoint", innodb.InnoDB.checkpoint),
    needs=innodb.needs(MYSQL),
    clients="processes",
    by_default=False,
    untested="no MySQL server could be had to run it on; it was run on MariaDB, which the row then names",
)
