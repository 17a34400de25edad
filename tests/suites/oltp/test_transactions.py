"""Tests the servers of the suite oltp by the conformance suite of the port `transactions`. Also tests that suite
itself: it fails for an impossible report or store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needed import require

from dyno import registry
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Opened, Report
from dyno.suites.oltp import SysbenchTables
from dyno.suites.oltp.workload import (
    CHECKS,
    STATEMENTS,
    check_balances,
    check_completed,
    check_rows,
    check_statements,
)

pytestmark = pytest.mark.usefixtures("processes")

PORT = "transactions"
SPECS = [spec.reduce_to_port(PORT) for spec in registry.engines() if PORT in spec.ports]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_engine_passes_the_checks(spec: Any, place: Path) -> None:
    require(spec)
    tier, options = spec.default_tier, spec.resolve({})
    server = spec.create_server(place / "server", tier, options, 2)
    with closing(server):
        server.start()

        @contextmanager
        def opened(name: str) -> Iterator[Any]:
            (place / name).mkdir()
            with (
                closing(spec.opener(place / name, tier, options, server)) as engine,
                closing(spec.ports[PORT].open(engine)) as port,
            ):
                yield port

        connect: Opened = opened
        for check in CHECKS.values():
            check(connect, tier)


# -- the suite itself ---------------------------------------------------------------------------------------------

TABLES = SysbenchTables(2, 100, "uniform")


def report(test: str, **more: Any) -> Report:
    """A plausible report of ten transactions, with changed fields."""
    reads, others = (10 * each for each in STATEMENTS[test])
    writes = others * 2 // 3
    facts = {"reads": reads, "writes": writes, "others": others - writes}
    whole = Report(tool="made up", operations=10, items=10, elapsed_ns=10_000, latencies=[(500, 10)], facts=facts)
    return replace(whole, **more)


@pytest.mark.parametrize("test", STATEMENTS)
def test_a_report_with_the_right_statements_passes(test: str) -> None:
    assert check_statements(test, report(test), 1) > 3
    passed_over = {name: value + 3 for name, value in report(test).facts.items() if isinstance(value, int)}
    assert check_statements(test, report(test, operations=11, errors=1, facts=passed_over), 1) > 3


@pytest.mark.claim("An outside tool's report is checked for consistency")
@pytest.mark.parametrize("test", STATEMENTS)
@pytest.mark.parametrize("name", ["reads", "writes", "others"])
@pytest.mark.parametrize("off", [-1, 1])
def test_report_with_wrong_statement_count_fails(test: str, name: str, off: int) -> None:
    facts: dict[str, Any] = {**report(test).facts}
    facts[name] += off
    with pytest.raises(Wrong, match=r"made up reports -?\d+ "):
        check_statements(test, report(test, facts=facts), 1)


def test_a_report_without_a_number_fails() -> None:
    with pytest.raises(Wrong, match="report reads"):
        check_statements("oltp_read_only", report("oltp_read_only", facts={}), 1)


@pytest.mark.parametrize(("items", "errors", "right"), [(10, 0, True), (8, 2, True), (8, 0, False), (8, 3, False)])
def test_aborted_transaction_passes_and_lost_one_fails(items: int, errors: int, right: bool) -> None:
    aborted = report("oltp_write_only", operations=items + errors, items=items, errors=errors)
    if right:
        check_completed(aborted)
        return
    with pytest.raises(Wrong, match="10 transactions were requested"):
        check_completed(aborted)


@pytest.mark.parametrize("rows", [[100, 99], [100, 101], [100], [100, 100, 100]])
def test_a_changed_number_of_rows_fails(rows: list[int]) -> None:
    assert check_rows([100, 100], TABLES) == 2
    with pytest.raises(Wrong, match="rows of each table"):
        check_rows(rows, TABLES)


@pytest.mark.claim("An outside tool's report is checked for consistency")
@pytest.mark.parametrize("at", range(5))
def test_different_balances_fail(at: int) -> None:
    right = [-7, -7, -7, -7, 3]
    assert check_balances(right, 3) == 4
    with pytest.raises(Wrong):
        check_balances([value + (place == at) for place, value in enumerate(right)], 3)
