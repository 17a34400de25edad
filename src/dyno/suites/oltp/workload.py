"""One trial of the suite oltp: fills a server, has an outside tool run each phase, and checks the data afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Phase, Refused
from dyno.contracts.suite import Report, Reported, Work
from dyno.suites._shared.store import OnStore
from dyno.suites._shared.tool import plausible, watched
from dyno.suites.oltp.conformance import CHECKS, Check, check_balances, check_rows, check_statements
from dyno.suites.oltp.params import TOOL_RUNS
from dyno.suites.oltp.port import Load, SysbenchTables, Transactions

WARM_NS = 2 * 10**9
"""Duration of the untimed run before a hot phase."""


class OltpWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        params = job.params
        self._tables = SysbenchTables(int(params["tables"]), int(params["table_size"]), str(params["distribution"]))
        self._filled: set[bool] = set()
        """The tables that exist: True stands for pgbench's, False for sysbench's."""
        self._changes = 0
        """Transactions that pgbench has reported; the history must have as many."""

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def port(self, engine: Engine, *how: Any) -> Transactions:
        port: Transactions = self._job.port(engine)
        return port

    def prepare(self, phase: Phase) -> None:
        if self._job.server is None or not self._job.server.own:
            raise Refused("outside tools run only on servers that Dyno starts: leave url out")
        self.begin()
        bank = TOOL_RUNS[phase.name].bank
        with self.connect() as port:
            if bank not in self._filled:
                self._fill(port, bank)
            if phase.temperature == "hot":
                self._run(port, phase, WARM_NS)

    def _fill(self, port: Transactions, bank: bool) -> None:
        """Raises Absent if the tool doesn't support the engine."""
        if bank:
            port.fill_bank(int(self._job.params["bank_scale"]))
        else:
            port.fill(self._tables)
        self._filled.add(bank)
        if self._job.spec.upkeep is not None:
            self._job.spec.upkeep(self.engine())

    def _run(self, port: Transactions, phase: Phase, limit_ns: int) -> Report:
        run, load = TOOL_RUNS[phase.name], Load(self._job.clients, limit_ns, self._job.seed)
        return port.run_bank(run.test, load) if run.bank else port.run(run.test, self._tables, load)

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        yield Reported(partial(watched, partial(self._run, port, phase)), partial(self._check, phase))

    def _check(self, phase: Phase, report: Report) -> int:
        run = TOOL_RUNS[phase.name]
        if not run.bank:
            return check_statements(run.test, report, self._job.clients)
        if phase.writes:
            self._changes += report.items
        return plausible(report, self._job.clients)

    def verify(self, phase: Phase) -> int:
        if not phase.writes:
            return 0
        with self.connect() as port:
            if TOOL_RUNS[phase.name].bank:
                return check_balances(port.balances(), self._changes)
            return check_rows(port.rows(self._tables), self._tables)
