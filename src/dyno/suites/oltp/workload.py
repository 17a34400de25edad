"""The suite `oltp`: conformance checks, checks of a tool's report, and a trial that checks the data afterwards."""

from collections.abc import Mapping, Sequence

from dyno.contracts.equality import expect, same
from dyno.contracts.model import Absent, Phase, Tier, Wrong
from dyno.contracts.suite import Job, Opened, Report, by_name
from dyno.suites._shared.store import ToolWorkload, plausible
from dyno.suites.oltp import PGBENCH, Load, SysbenchTables, Transactions

FEW = SysbenchTables(2, 100, "uniform")
LOAD = Load(clients=2, limit_ns=0, seed=1, events=10)

# Statements per transaction by sysbench's defaults: reads, and the sum of writes with BEGIN and COMMIT. The latter
# are added up because sysbench counts a write that changed nothing among the others.
STATEMENTS: Mapping[str, tuple[int, int]] = {
    "oltp_point_select": (1, 0),
    "oltp_read_only": (14, 2),
    "oltp_read_write": (14, 6),
    "oltp_write_only": (0, 6),
}


def check_statements(test: str, report: Report, clients: int) -> int:
    """Checks the number of statements in a report. Returns the number of compared figures. Raises Wrong for an
    implausible report, and if the number of statements doesn't fit the transactions. It must fit exactly, unless some
    transactions were aborted and retried."""
    compared = plausible(report, clients)
    reads, others = _count(report, "reads"), _count(report, "writes") + _count(report, "others")
    for name, count, each in zip(("reads", "writes and others"), (reads, others), STATEMENTS[test], strict=True):
        expected = each * report.items
        if count < expected or (not report.errors and not same(count, expected)):
            raise Wrong(f"{report.tool} reports {count} {name} in {report.items} transactions of {each}")
        compared += 1
    return compared


def _count(report: Report, name: str) -> int:
    count = report.facts.get(name)
    if type(count) is not int:
        raise Wrong(f"{report.tool} doesn't report {name}")
    return count


def check_rows(rows: Sequence[int], tables: SysbenchTables) -> int:
    """Checks the number of rows in each table. Returns the number of compared tables. Raises Wrong if a table has
    another number of rows than at the start, since each transaction inserts the row again that it deletes."""
    expected = [tables.size] * tables.count
    expect(list(rows), expected, "rows of each table")
    return len(rows)


def check_balances(balances: Sequence[int], transactions: int) -> int:
    """Checks that all sums agree, and the number of changes. Returns the number of compared figures. Raises Wrong."""
    accounts, tellers, branches, changes, history = balances
    for name, total in (("tellers", tellers), ("branches", branches), ("the history", changes)):
        if not same(total, accounts):
            raise Wrong(f"the accounts add up to {accounts}, and {name} to {total}")
    if not same(history, transactions):
        raise Wrong(f"{transactions} transactions were reported, but the history has {history}")
    return 4


def check_completed(report: Report) -> None:
    """Raises Wrong unless each transaction of LOAD was completed or counted as an error. With serializable isolation
    the server aborts some transactions, which pgbench doesn't retry."""
    if not same(report.items + report.errors, LOAD.events):
        raise Wrong(f"{LOAD.events} transactions were requested, {report.items} done and {report.errors} aborted")


def tables(opened: Opened[Transactions], tier: Tier | None) -> None:
    """Ten transactions of each of sysbench's tests leave the number of rows unchanged."""
    with opened("tables") as port:
        port.fill(FEW)
        for test in STATEMENTS:
            report = port.run(test, FEW, LOAD)
            check_statements(test, report, LOAD.clients)
            if not same(report.items, LOAD.events):
                raise Wrong(f"{test}: {LOAD.events} transactions were requested, {report.items} done")
            check_rows(port.rows(FEW), FEW)


def bank(opened: Opened[Transactions], tier: Tier | None) -> None:
    """After ten transactions of each of pgbench's scripts the balances add up."""
    with opened("bank") as port:
        try:
            port.fill_bank(1)
        except Absent:
            return
        report = port.run_bank("tpcb-like", LOAD)
        port.run_bank("select-only", LOAD)
        check_completed(report)
        check_balances(port.balances(), report.items)


CHECKS = by_name(tables, bank)


WARM_NS = 2 * 10**9
"""Duration of the untimed run before a hot phase."""


class OltpWorkload(ToolWorkload):
    checks = CHECKS

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        params = job.params
        self._tables = SysbenchTables(int(params["tables"]), int(params["table_size"]), str(params["distribution"]))
        self._filled: set[bool] = set()
        """Kinds of tables that are filled: True for pgbench's, False for sysbench's."""
        self._changes = 0
        """Number of transactions that pgbench reported, which must be the number of changes in its history."""

    def prepare(self, phase: Phase) -> None:
        bank = phase.name in PGBENCH
        with self.connect() as port:
            if bank not in self._filled:
                if bank:
                    port.fill_bank(int(self._job.params["bank_scale"]))
                else:
                    port.fill(self._tables)
                self._filled.add(bank)
                self._written = True
                self.keep_up()
            if phase.temperature == "hot":
                self.run(port, phase, WARM_NS)

    def run(self, port: Transactions, phase: Phase, limit_ns: int) -> Report:
        load = Load(self._job.clients, limit_ns, self._job.seed)
        if phase.name in PGBENCH:
            return port.run_bank(phase.name, load)
        return port.run(_sysbench_test(phase), self._tables, load)

    def check(self, phase: Phase, report: Report) -> int:
        if phase.name not in PGBENCH:
            return check_statements(_sysbench_test(phase), report, self._job.clients)
        if phase.writes:
            self._changes += report.items
        return super().check(phase, report)

    def verify(self, phase: Phase) -> int:
        if not phase.writes:
            return 0
        with self.connect() as port:
            if phase.name in PGBENCH:
                return check_balances(port.balances(), self._changes)
            return check_rows(port.rows(self._tables), self._tables)


def _sysbench_test(phase: Phase) -> str:
    """Returns the name of the phase's test: 'oltp_point_select' for 'point-select-cold'."""
    return f"oltp_{phase.name.removesuffix('-cold').replace('-', '_')}"


WORKLOAD = OltpWorkload
