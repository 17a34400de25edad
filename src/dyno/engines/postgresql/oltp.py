"""The port `transactions` on PostgreSQL: sysbench and pgbench work in the store's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dyno.contracts.model import Value
from dyno.contracts.suite import Report
from dyno.engines.postgresql.server import places
from dyno.engines.sysbench.program import Sysbench, fill_pgbench, run_pgbench
from dyno.engines.sysbench.program import missing as missing_sysbench
from dyno.servers.process import program
from dyno.suites.oltp import Load, SysbenchTables

if TYPE_CHECKING:
    from dyno.engines.postgresql import Postgres

BALANCES = {"accounts": "abalance", "tellers": "tbalance", "branches": "bbalance", "history": "delta"}


def missing(options: Mapping[str, Value]) -> str | None:
    """Returns a message about the missing tool, with the command that installs it; None if none is missing."""
    if program("pgbench", places=places()) is None:
        return "needs pgbench: apt-get install -y postgresql"
    return missing_sysbench()


class Transactions:
    """See `dyno.suites.oltp.Transactions`."""

    def __init__(self, engine: Postgres) -> None:
        self._connection = engine.connect()
        self._environment = engine.environment()
        host, port, user, name = (self._environment[each] for each in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE"))
        words = ["--db-driver=pgsql", f"--pgsql-host={host}", f"--pgsql-port={port}", f"--pgsql-user={user}"]
        self._sysbench = Sysbench([*words, f"--pgsql-db={name}"], self._environment)
        self._pgbench = program("pgbench", places=places()) or "pgbench"
        self.fill, self.run = self._sysbench.fill, self._sysbench.run

    def rows(self, tables: SysbenchTables) -> list[int]:
        return [self._number(f"SELECT count(*) FROM sbtest{at}") for at in range(1, tables.count + 1)]

    def fill_bank(self, scale: int) -> None:
        fill_pgbench(self._pgbench, self._environment, scale)

    def run_bank(self, script: str, load: Load) -> Report:
        return run_pgbench(self._pgbench, self._environment, script, load)

    def balances(self) -> list[int]:
        sums = [
            self._number(f"SELECT coalesce(sum({column}), 0)::bigint FROM pgbench_{table}")
            for table, column in BALANCES.items()
        ]
        return [*sums, self._number("SELECT count(*) FROM pgbench_history")]

    def _number(self, query: str) -> int:
        (value,) = self._connection.execute(query).fetchone()
        return int(value)

    def close(self) -> None:
        self._connection.close()
