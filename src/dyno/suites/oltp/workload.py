"""Trial of the suite `oltp`: fills a server, runs a tool in each phase, and checks the data afterwards."""

from __future__ import annotations

from typing import Any

from dyno.contracts.model import Phase, Refused
from dyno.contracts.suite import Report
from dyno.suites._shared.tool import ToolWorkload
from dyno.suites.oltp import TOOL_RUNS, Load, SysbenchTables, Transactions
from dyno.suites.oltp.conformance import CHECKS, check_balances, check_rows, check_statements

WARM_NS = 2 * 10**9
"""Duration of the untimed run before a hot phase."""


class OltpWorkload(ToolWorkload):
    checks = CHECKS

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        params = job.params
        self._tables = SysbenchTables(int(params["tables"]), int(params["table_size"]), str(params["distribution"]))
        self._filled: set[bool] = set()
        """Kinds of tables that are filled: True for pgbench's, False for sysbench's."""
        self._changes = 0
        """Number of transactions that pgbench reported, which must be the number of changes in its history."""

    def prepare(self, phase: Phase) -> None:
        if self._job.server is None or not self._job.server.own:
            raise Refused("outside tools run only on servers that Dyno starts: leave url out")
        self.begin()
        bank = TOOL_RUNS[phase.name].bank
        with self.connect() as port:
            if bank not in self._filled:
                self._fill(port, bank)
            if phase.temperature == "hot":
                self.run(port, phase, WARM_NS)

    def _fill(self, port: Transactions, bank: bool) -> None:
        """Creates and fills the tables of a tool. Raises Absent if the tool doesn't support the engine."""
        if bank:
            port.fill_bank(int(self._job.params["bank_scale"]))
        else:
            port.fill(self._tables)
        self._filled.add(bank)
        if self._job.spec.upkeep is not None:
            self._job.spec.upkeep(self.engine())

    def run(self, port: Transactions, phase: Phase, limit_ns: int) -> Report:
        run, load = TOOL_RUNS[phase.name], Load(self._job.clients, limit_ns, self._job.seed)
        return port.run_bank(run.test, load) if run.bank else port.run(run.test, self._tables, load)

    def check(self, phase: Phase, report: Report) -> int:
        run = TOOL_RUNS[phase.name]
        if not run.bank:
            return check_statements(run.test, report, self._job.clients)
        if phase.writes:
            self._changes += report.items
        return super().check(phase, report)

    def verify(self, phase: Phase) -> int:
        if not phase.writes:
            return 0
        with self.connect() as port:
            if TOOL_RUNS[phase.name].bank:
                return check_balances(port.balances(), self._changes)
            return check_rows(port.rows(self._tables), self._tables)


WORKLOAD = OltpWorkload
