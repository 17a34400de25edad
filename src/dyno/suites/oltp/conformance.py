"""The conformance suite of the port `transactions`. Nothing may be put here that depends on an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from dyno.contracts.equality import difference, same
from dyno.contracts.model import Absent, Tier, Wrong
from dyno.contracts.suite import Report
from dyno.suites._shared.tool import plausible
from dyno.suites.oltp.port import Load, SysbenchTables, Transactions

Opened = Callable[[str], AbstractContextManager[Transactions]]
Check = Callable[[Opened, Tier | None], None]
FEW = SysbenchTables(2, 100, "uniform")
LOAD = Load(clients=2, limit_ns=0, seed=1, events=10)

# Statements of a transaction, by sysbench's defaults: reads; and writes with BEGIN and COMMIT, as it counts among the
# others a write that changed nothing.
STATEMENTS: Mapping[str, tuple[int, int]] = {
    "oltp_point_select": (1, 0),
    "oltp_read_only": (14, 2),
    "oltp_read_write": (14, 6),
    "oltp_write_only": (0, 6),
}


def check_statements(test: str, report: Report, clients: int) -> int:
    """How many figures were held against each other. Raises Wrong for a report that can't be true, and for statements
    that are not those of so many transactions: exactly, where none was passed over and begun again."""
    seen = plausible(report, clients)
    reads, others = _told(report, "reads"), _told(report, "writes") + _told(report, "others")
    for name, told, each in zip(("reads", "writes and others"), (reads, others), STATEMENTS[test], strict=True):
        wanted = each * report.items
        if told < wanted or (not report.errors and not same(told, wanted)):
            raise Wrong(f"{report.tool} tells {told} {name} in {report.items} transactions of {each}")
        seen += 1
    return seen


def _told(report: Report, name: str) -> int:
    found = report.facts.get(name)
    if type(found) is not int:
        raise Wrong(f"{report.tool} tells no {name}")
    return found


def check_rows(rows: Sequence[int], tables: SysbenchTables) -> int:
    """How many tables were looked at. Raises Wrong where one has not the rows that it began with: each transaction
    that takes one out puts it in again."""
    wanted = [tables.size] * tables.count
    if not same(list(rows), wanted):
        raise Wrong(f"rows of each table: {difference(list(rows), wanted)}")
    return len(rows)


def check_balances(found: Sequence[int], transactions: int) -> int:
    """How many figures were held against each other. Raises Wrong where the sums differ, or where there are not as
    many changes in the history as there were transactions."""
    accounts, tellers, branches, changes, history = found
    for name, total in (("tellers", tellers), ("branches", branches), ("the history", changes)):
        if not same(total, accounts):
            raise Wrong(f"the accounts add up to {accounts}, and {name} to {total}")
    if not same(history, transactions):
        raise Wrong(f"{transactions} transactions were told, and {history} are in the history")
    return 4


def check_completed(done: Report) -> None:
    """Raises Wrong unless each transaction of LOAD was done or counted as an error: at isolation serializable the
    server aborts some, which pgbench doesn't begin again."""
    if not same(done.items + done.errors, LOAD.events):
        raise Wrong(f"{LOAD.events} transactions were requested, {done.items} done and {done.errors} aborted")


def tables(opened: Opened, tier: Tier | None) -> None:
    """Ten transactions of each of sysbench's tests, and the rows that there are then."""
    with opened("tables") as port:
        port.fill(FEW)
        for test in STATEMENTS:
            report = port.run(test, FEW, LOAD)
            check_statements(test, report, LOAD.clients)
            if not same(report.items, LOAD.events):
                raise Wrong(f"{test}: {LOAD.events} transactions were asked for, and {report.items} done")
            check_rows(port.rows(FEW), FEW)


def bank(opened: Opened, tier: Tier | None) -> None:
    """Ten transactions of each of pgbench's scripts, and what the accounts add up to then."""
    with opened("bank") as port:
        try:
            port.fill_bank(1)
        except Absent:
            return
        done = port.run_bank("tpcb-like", LOAD)
        port.run_bank("select-only", LOAD)
        check_completed(done)
        check_balances(port.balances(), done.items)


CHECKS: dict[str, Check] = {"tables": tables, "bank": bank}
