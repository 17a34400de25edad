"""MariaDB through PyMySQL: a server or Galera cluster that Dyno starts, or the user's own server."""

from dyno.contracts.engine import PortSpec
from dyno.contracts.settings import Setting, integer
from dyno.engines.mysql import oltp
from dyno.engines.mysql.innodb import NODES, PORTS, declaration
from dyno.engines.mysql.server_galera import MOST, NODE_SECONDS
from dyno.engines.mysql.server_mariadb import MARIADB

ENGINE = declaration(
    MARIADB,
    *("mariadb", "mysql"),
    ports={
        **PORTS,
        "transactions": PortSpec(oltp.Transactions, packages=("sysbench",), needs=oltp.missing),
    },
    packages=("mariadb-server-core",),
    options=(Setting(NODES, integer(1, MOST), 1, "servers of Dyno's own, in a Galera cluster if several"),),
    starting=lambda options: NODE_SECONDS * (int(str(options[NODES])) - 1),
)
