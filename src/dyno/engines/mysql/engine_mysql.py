"""MySQL through PyMySQL: a server that Dyno starts, or the user's own."""

from dyno.engines.mysql.innodb import PORTS, declaration
from dyno.engines.mysql.server_mariadb import MYSQL

ENGINE = declaration(
    MYSQL,
    "mysql",
    ports=PORTS,
    packages=("mysql-server-core-8.0",),
    untested="no MySQL server could be had to run it on; it was run on MariaDB, which the row then names",
)
