"""Native load of the user's own SQL: its answers, several clients, deadlocks, and scripts that it can't run."""

from __future__ import annotations

from typing import Any

import pytest
from needed import available, require
from shell import Shell

from dyno import registry
from dyno.suites.sql.language.script import parse
from dyno.suites.sql.native import can_load_script

pytestmark = pytest.mark.usefixtures("processes")

PLAN = '''
suite = "sql"
samples = 1
budget = 20
[sql]
schema = """
CREATE TABLE item (id integer PRIMARY KEY, kind integer, price double precision, ratio real, name varchar(90),
    day date, moment timestamp(6) NULL, cost decimal(10, 3), large bigint, flag boolean, code char(36));
CREATE TABLE counter (id integer PRIMARY KEY, total integer NOT NULL);
"""
tables.counter = { rows = 2, id = "serial", total = "uniform:0..0" }
[sql.tables.item]
rows = 500
id = "serial"
kind = "uniform:1..10"
price = "uniform:0.0..9.0"
ratio = "uniform:0.0..9.0?10%"
name = "words:2?10%"
day = "date:2026-01-01..2026-06-30?10%"
moment = "time:2026-01-01..2026-06-30"
cost = "decimal:1..99:3?10%"
large = "uniform:-9000000000..9000000000"
flag = "bool"
code = "uuid"
[sql.transactions.rows]
script = """
\\\\set k random(1, 10)
SELECT * FROM item WHERE kind = :k ORDER BY id LIMIT 20;
"""
[sql.transactions.sums]
script = """
\\\\set k random(1, 10)
BEGIN;
SELECT count(*), sum(cost), avg(price), min(moment), max(day), sum(large), :k + 1 FROM item WHERE kind = :k;
SELECT id, name FROM item WHERE id > 10000;
COMMIT;
"""
[sql.transactions.names]
script = "SELECT id, code FROM item WHERE name LIKE '%a%' ORDER BY id LIMIT 5"
compare = ["code"]
[sql.transactions.push]
script = "INSERT INTO item (id, kind, name) VALUES (1000000 + :n, 1, 'new')"
affects = [1]
[sql.transactions.known]
script = """
SELECT count(*) AS known FROM item WHERE kind = 1 \\\\gset
INSERT INTO item (id, kind, name) VALUES (3000000 + :n, :known, 'new');
"""
[sql.transactions.crossed]
script = """
\\\\set a random(1, 2)
BEGIN;
INSERT INTO item (id, kind, name) VALUES (2000000 + :n, 1, 'new');
UPDATE counter SET total = total + 1 WHERE id = :a;
UPDATE counter SET total = total + 1 WHERE id = 3 - :a;
COMMIT;
"""
affects = [1, 1, 1]
[sql.transactions.repeated]
script = """
BEGIN;
SAVEPOINT marker;
INSERT INTO item (id, kind, name) VALUES (4000000 + :n, 1, 'undone');
RELEASE SAVEPOINT marker;
INSERT INTO item (id, kind, name) VALUES (4999999, 1, 'once');
INSERT INTO item (id, kind, name) VALUES (5000000 + :n, 1, 'after');
COMMIT;
"""
[sql.mixes.day]
rows = 3
push = 1
[[sql.checks]]
says = "each acknowledged item is there"
query = "SELECT count(*) FROM item WHERE id < 4000000"
grows_by = ["push", "known", "crossed"]
[[sql.checks]]
says = "of `repeated` there is one transaction"
query = "SELECT CASE WHEN count(*) IN (0, 3) THEN 1 ELSE 0 END FROM item WHERE id >= 4000000"
equals = 1
'''
"""`crossed` updates two rows in either order, so that clients wait for each other in a circle."""
SERVERS = ("postgresql", "mariadb")


def run(shell: Shell, engines: str, phases: str, *words: object, status: int = 0) -> dict[str, list[Any]]:
    """Runs the plan. Returns the samples by phase."""
    (shell.home / "own.toml").write_text(PLAN)
    ended = shell.dyno("run", "own.toml", "-e", engines, "--phases", phases, "-o", shell.file, *words)
    assert ended.status == status, ended.out + ended.err
    samples: dict[str, list[Any]] = {}
    for attempt in shell.attempts():
        for sample in attempt["samples"]:
            if sample["server"] is not None:
                samples.setdefault(sample["phase"], []).append(sample)
    return samples


@pytest.fixture(scope="module")
def trials(shared_shell: Shell) -> dict[str, dict[str, Any]]:
    """The samples by phase of each row: both servers with either load, and SQLite."""
    engines = [row for engine in available("sql", SERVERS) for row in (engine, f"{engine}:client=native")]
    run(
        shared_shell,
        ",".join([*engines, "sqlite"]),
        "rows,sums,names,push,repeated",
        "-p",
        "operations=300",
        status=1,
    )
    assert {phase for _, phase, _ in shared_shell.invalid()} == {"repeated"}
    return shared_shell.samples()


@pytest.mark.parametrize("engine", SERVERS)
def test_native_load_and_library_get_same_answers(engine: str, trials: dict[str, dict[str, Any]]) -> None:
    require(registry.engine(engine).reduce_to_port("sql"))
    library, native = trials[engine], trials[f"{engine}:client=native"]
    for phase in ("rows", "sums", "names", "push"):
        assert (library[phase]["load"], native[phase]["load"]) == ("library", "native"), phase
        for sample in (library[phase], native[phase]):
            assert sample["void"] is None and sample["errors"] == 0 and sample["operations"] == 300, sample
        assert library[phase]["facts"]["answers_chain"] == native[phase]["facts"]["answers_chain"], phase


@pytest.mark.parametrize("engine", SERVERS)
def test_the_statements_after_an_error_are_not_executed(engine: str, trials: dict[str, dict[str, Any]]) -> None:
    require(registry.engine(engine).reduce_to_port("sql"))
    for row in (engine, f"{engine}:client=native"):
        sample = trials[row]["repeated"]
        # The failed transactions, but the first, must have left nothing.
        assert sample["void"] is None and sample["errors"] == 299 and sample["operations"] == 300, sample


@pytest.mark.parametrize("engine", SERVERS)
def test_several_clients_use_native_load_by_default(engine: str, shell: Shell) -> None:
    require(registry.engine(engine).reduce_to_port("sql"))
    samples = run(shell, engine, "rows,push,day,known", "--clients", 8, "-p", "operations=50")
    assert {phase: {sample["load"] for sample in of} for phase, of in samples.items()} == {
        "rows": {"native"},
        "push": {"native"},
        "day": {"native"},
        "known": {"library"},
    }
    cells = shell.cells()
    assert all(cell["valid"] for cell in cells.values())
    codes = {doubt["code"] for doubt in cells[f"{engine}:client=native", "known"]["doubts"]}
    assert "library" in codes


@pytest.mark.parametrize(("engine", "code"), [("postgresql", "40P01"), ("mariadb", "1213")])
def test_deadlocked_transactions_fail_and_are_rolled_back(engine: str, code: str, shell: Shell) -> None:
    """The check of the plan counts the rows: one of an undone transaction, or of its statements after the error, is
    one too many."""
    require(registry.engine(engine).reduce_to_port("sql"))
    # More than 1 % of the operations fail, so the row has no number. PostgreSQL looks for deadlocks after a second.
    words = ("--clients", 4, "-p", "operations=500", "--budget", 4)
    samples = run(shell, engine, "crossed,push", *words, status=1)
    (crossed,), (push,) = samples["crossed"], samples["push"]
    assert crossed["load"] == "native" and crossed["void"] is None, crossed
    assert 0 < crossed["facts"]["answers_aborts"] == crossed["errors"] < crossed["operations"], crossed
    assert push["void"] is None and push["errors"] == 0
    assert f"Aborted: {code}" in shell.cells()[f"{engine}:client=native", "crossed"]["why"]


def test_native_load_refuses_script_with_gset(shell: Shell) -> None:
    require(registry.engine("postgresql"))
    (shell.home / "own.toml").write_text(PLAN)
    words = ("--phases", "known", "--load", "native")
    ended = shell.run_here("run", "own.toml", "-e", "postgresql", *words, "-o", shell.file)
    assert ended.status == 2 and "known" in ended.err and "gset" in ended.err and len(ended.err.splitlines()) == 1
    assert not shell.file.exists()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("SELECT 1", True),
        ("SELECT 1; SELECT 2", True),
        ("BEGIN; UPDATE t SET a = 1; UPDATE t SET b = 1; END", True),
        ("UPDATE t SET a = 1; UPDATE t SET b = 1", True),
        ("BEGIN; UPDATE t SET a = 1; COMMIT; UPDATE t SET b = 1", False),
        ("BEGIN; SAVEPOINT s; UPDATE t SET a = 1; ROLLBACK TO SAVEPOINT s; COMMIT", True),
        ("BEGIN; UPDATE t SET a = 1; COMMIT AND CHAIN", False),
        ("BEGIN; SELECT 1", False),
        ("SELECT 1 AS a \\gset\nSELECT :a", False),
        ("SET work_mem = '1MB'; SELECT 1", False),
    ],
)
def test_script_statements_decide_native_load_support(script: str, expected: bool) -> None:
    assert can_load_script(parse(script, "script")) is expected
