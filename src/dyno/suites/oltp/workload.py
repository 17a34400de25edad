"""One trial of the suite oltp: a server is filled, an outside tool does each phase, and Dyno looks at what is there
then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
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
"""An untimed run before a phase that is to be hot."""


class OltpWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def __init__(self, job: Any) -> None:
        super().__init__(job)
        params = job.params
        self._tables = SysbenchTables(int(params["tables"]), int(params["table_size"]), str(params["distribution"]))
        self._filled: set[bool] = set()
        """Whose tables are there: pgbench's, and not."""
        self._changes = 0
        """Transactions that pgbench has told of, each of which is in its history."""

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def port(self, engine: Engine, *how: Any) -> Transactions:
        port: Transactions = self._job.port(engine)
        return port

    @contextmanager
    def connect(self) -> Iterator[Transactions]:
        with closing(self.port(self.engine())) as port:
            yield port

    def prepare(self, phase: Phase) -> None:
        if self._job.server is None or not self._job.server.own:
            raise Refused("outside tools are let loose on servers of Dyno's own alone: leave url out")
        self.begin()
        step = TOOL_RUNS[phase.name]
        with self.connect() as port:
            if step.bank not in self._filled:
                self._fill(port, step.bank)
            if phase.temperature == "hot":
                self._once(port, phase, WARM_NS)

    def _fill(self, port: Transactions, bank: bool) -> None:
        """Raises Absent where the tool is none for the engine."""
        if bank:
            port.fill_bank(int(self._job.params["bank_scale"]))
        else:
            port.fill(self._tables)
        self._filled.add(bank)
        if self._job.spec.upkeep is not None:
            self._job.spec.upkeep(self.engine())

    def _once(self, port: Transactions, phase: Phase, limit_ns: int) -> Report:
        step, load = TOOL_RUNS[phase.name], Load(self._job.clients, limit_ns, self._job.seed)
        return port.run_bank(step.test, load) if step.bank else port.run(step.test, self._tables, load)

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        yield Reported(partial(watched, partial(self._once, port, phase)), partial(self._check, phase))

    def _check(self, phase: Phase, report: Report) -> int:
        step = TOOL_RUNS[phase.name]
        if not step.bank:
            return check_statements(step.test, report, self._job.clients)
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
