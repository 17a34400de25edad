"""PostgreSQL through the port `transactions`: sysbench and pgbench are at work in the schema of the store."""

from __future__ import annotations

from collections.abc import Mapping

from dyno.contracts.model import Refused, Value
from dyno.contracts.suite import Report
from dyno.engines.postgresql.opener import Postgres
from dyno.engines.postgresql.server import places
from dyno.engines.sysbench import program as sysbench
from dyno.engines.sysbench.database_tests import Sysbench, fill_pgbench, run_pgbench
from dyno.servers.process import program
from dyno.suites.oltp import Load, SysbenchTables

PGBENCH = "pgbench"


def missing(options: Mapping[str, Value]) -> str | None:
    """Of the tools."""
    if program(PGBENCH, places=places()) is None:
        return "needs pgbench: apt-get install -y postgresql"
    return sysbench.missing()


class Transactions:
    """See `dyno.suites.oltp.Transactions`."""

    def __init__(self, engine: Postgres) -> None:
        self._connection = engine.connect()
        self._environment = engine.environment()
        host, port, user, name = (self._environment[each] for each in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE"))
        words = ["--db-driver=pgsql", f"--pgsql-host={host}", f"--pgsql-port={port}", f"--pgsql-user={user}"]
        self._sysbench = Sysbench([*words, f"--pgsql-db={name}"], self._environment)
        self.fill, self.run = self._sysbench.fill, self._sysbench.run

    def rows(self, tables: SysbenchTables) -> list[int]:
        return [self._one(f"SELECT count(*) FROM sbtest{at}") for at in range(1, tables.count + 1)]

    def fill_bank(self, scale: int) -> None:
        fill_pgbench(self._pgbench(), self._environment, scale)

    def run_bank(self, script: str, load: Load) -> Report:
        return run_pgbench(self._pgbench(), self._environment, script, load)

    def _pgbench(self) -> str:
        found = program(PGBENCH, places=places())
        if found is None:
            raise Refused(f"{missing({})}")
        return found

    def balances(self) -> list[int]:
        sums = [
            self._one(f"SELECT coalesce(sum({column}), 0)::bigint FROM pgbench_{table}")
            for table, column in (
                *(("accounts", "abalance"), ("tellers", "tbalance")),
                *(("branches", "bbalance"), ("history", "delta")),
            )
        ]
        return [*sums, self._one("SELECT count(*) FROM pgbench_history")]

    def _one(self, query: str) -> int:
        (found,) = self._connection.execute(query).fetchone()
        return int(found)

    def close(self) -> None:
        self._connection.close()
