"""The port `transactions` on MariaDB: sysbench works in the store's database."""

from collections.abc import Mapping

from dyno.contracts.model import Absent, Value
from dyno.contracts.suite import Report
from dyno.engines.mysql.innodb import InnoDB
from dyno.engines.sysbench.program import Sysbench
from dyno.engines.sysbench.program import missing as missing_sysbench
from dyno.suites.oltp import Load, SysbenchTables

WHY = "pgbench is a tool for PostgreSQL alone"


def missing(options: Mapping[str, Value]) -> str | None:
    """Returns a message that sysbench is missing, with the command that installs it; None if it is installed."""
    return missing_sysbench()


class Transactions:
    """See `dyno.suites.oltp.Transactions`."""

    def __init__(self, engine: InnoDB) -> None:
        self._connection = engine.connect()
        address = [f"--mysql-{name}={value}" for name, value in engine.connection_arguments().items()]
        # A node of a cluster gives each second or third id, but sysbench needs all of them: it deletes and inserts
        # rows by their ids, from 1 to the number of rows.
        self._sysbench = Sysbench(["--db-driver=mysql", "--auto_inc=off", *address])
        self.fill, self.run = self._sysbench.fill, self._sysbench.run

    def rows(self, tables: SysbenchTables) -> list[int]:
        counts = (self._connection.execute(f"SELECT count(*) FROM sbtest{at}") for at in range(1, tables.count + 1))
        return [int((each.fetchone() or (0,))[0]) for each in counts]

    def fill_bank(self, scale: int) -> None:
        raise Absent(WHY)

    def run_bank(self, script: str, load: Load) -> Report:
        raise Absent(WHY)

    def balances(self) -> list[int]:
        raise Absent(WHY)

    def close(self) -> None:
        self._connection.close()
