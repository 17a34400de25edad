"""Latencies of a transaction's statements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from shell import Shell

from dyno.suites.sql import statement_times
from dyno.suites.sql.language.script import Script, Statement
from dyno.suites.sql.statement_times import StatementTimer

MS = 1_000_000
SHOP = """
suite = "sql"
engine = ["sqlite"]
samples = 1
retries = 0
budget = 0.3

[sql]
schema = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance integer)"

[sql.tables.accounts]
rows = 100
id = "serial"
balance = "uniform:0..9"

[sql.transactions.pay]
script = '''
\\set a random(1, 100)
BEGIN;
UPDATE accounts SET balance = balance + 1 WHERE id = :a;
SELECT balance FROM accounts WHERE id = :a;
COMMIT;
'''

[sql.transactions.read]
script = '''
\\set a random(1, 100)
SELECT balance FROM accounts WHERE id = :a;
'''

[sql.mixes.both]
pay = 1
read = 1
"""


def a_script(*texts: str) -> Script:
    steps = tuple(Statement((text,), (), None, text.split()[0], 1, False) for text in texts)
    return Script(steps, ())


def run_twice(timer: StatementTimer, *answers: Any) -> list[list[int]]:
    """Runs a transaction of two statements for each answer; an exception as an answer is raised."""
    spans = timer.start_slice()
    statements = [timer.time_statement(lambda values: values) for _ in range(2)]

    def transaction(answer: Any) -> Any:
        for statement in statements:
            statement(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    timed = timer.time_transaction(transaction)
    for answer in answers:
        try:
            assert timed(answer) == answer
        except ValueError:
            continue
    return spans


def test_statements_are_numbered_and_shortened() -> None:
    timer = StatementTimer(a_script("BEGIN", f"SELECT {'x' * 40}"), "pay: ")
    assert timer.names == ["pay: 1 BEGIN", f"pay: 2 SELECT {'x' * 17}…"]


def test_failed_transaction_has_no_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_times, "_cost_ns", lambda: 0.0)
    timer = StatementTimer(a_script("BEGIN", "COMMIT"))
    spans = run_twice(timer, 1, ValueError("aborted"), 2)
    assert [len(each) for each in spans] == [2, 2]
    assert {name: len(of) for name, of in timer.take(spans).items()} == {"1 BEGIN": 2, "2 COMMIT": 2}


@pytest.mark.parametrize(("cost_ns", "on"), [(MS * 0.02, True), (MS * 0.021, False)])
@pytest.mark.claim("Statements are timed only where that takes at most 2 % of a transaction")
def test_costly_timing_is_switched_off(monkeypatch: pytest.MonkeyPatch, cost_ns: float, on: bool) -> None:
    monkeypatch.setattr(statement_times, "_cost_ns", lambda: cost_ns)
    timer = StatementTimer(a_script("BEGIN", "COMMIT"))
    spans: Sequence[Sequence[int]] = [[MS, MS]] * 3
    assert bool(timer.take(spans)) is on
    assert timer.on is on


def test_single_statement_has_no_parts() -> None:
    assert not StatementTimer(a_script("SELECT 1")).on


@pytest.mark.usefixtures("processes")
def test_latency_of_each_statement_is_in_the_json(shell: Shell) -> None:
    (shell.home / "shop.toml").write_text(SHOP)
    assert shell.dyno("run", "shop.toml", "-o", shell.file).status == 0
    cells = json.loads(shell.dyno("show", shell.file, "--json").out)["cells"]
    parts = {(cell["engine"], cell["phase"]): cell["latency_by_part_ns"] for cell in cells}
    statements = ["1 BEGIN", "2 UPDATE accounts SET bala…", "3 SELECT balance FROM acco…", "4 COMMIT"]
    pay = parts["sqlite", "pay"]
    # Where a transaction takes so little that the clock would cost more than 2 %, there are none.
    assert list(pay) in (statements, [])
    assert list(parts["sqlite", "both"]) in ([f"pay: {name}" for name in statements], [])
    assert parts["sqlite", "read"] == parts["null", "pay"] == {}
    whole = next(cell["latency_ns"]["p50"] for cell in cells if (cell["engine"], cell["phase"]) == ("sqlite", "pay"))
    assert all(0 < of["p50"] <= whole for of in pay.values())
