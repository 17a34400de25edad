"""Runs the user's own SQL like a user: from a plan file and from the command line, on engines that agree and on a
test engine that answers wrongly now and then; pgbench's scripts as they are; and mistakes in a definition.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from needed import require
from shell import TESTS, Shell

from dyno import registry

pytestmark = pytest.mark.usefixtures("processes")

TABLES = """
[sql.tables]
item = { rows = 2_000, id = "serial", kind = "uniform:1..10", price = "uniform:0.0..9.0", name = "words:2" }
"""
SHOP = f'''
suite = "sql"
samples = 1
[sql]
schema = "CREATE TABLE item (id integer PRIMARY KEY, kind integer, price double precision, name varchar(90))"
after = "CREATE INDEX by_kind ON item (kind)"
{TABLES}
[sql.transactions.first]
script = """
\\\\set k random(1, 10)
SELECT id, price, name FROM item WHERE kind = :k AND id <= 100 ORDER BY id LIMIT 10;
"""
[sql.transactions.add]
script = """
BEGIN;
SELECT count(*) AS known FROM item WHERE kind = 1 \\\\gset
\\\\set kind 1 + :known % 10
INSERT INTO item (id, kind, price, name) VALUES (1000000 + :n, :kind, 1.5, 'new');
COMMIT;
"""
affects = [1]
[sql.transactions.push]
script = """
BEGIN;
INSERT INTO item (id, kind, price, name) VALUES (1000000 + :n, 1, 1.5, 'new');
COMMIT;
"""
affects = [1]
[sql.mixes.day]
first = 3
add = 1
[[sql.checks]]
says = "each acknowledged item is there"
query = "SELECT count(*) FROM item"
grows_by = ["add", "push"]
'''
HUNDRED = (
    SHOP.replace("[sql]", '[sql]\nreference = "sqlite"', 1)
    + """
[sql.transactions.hundred]
script = "SELECT id, price * 10000 AS amount FROM item WHERE id <= 100;"
"""
)
BROKEN = {
    "how=not+every=100": None,
    "how=reverse+every=100": None,
    "how=drop+every=20000": "operation",
    "how=float+every=20000": "operation",
}
"""Maps options of the test engine to what its row says; None if its answers are right."""


def run(shell: Shell, text: str, engines: str, *words: object, status: int = 0) -> dict[tuple[str, str], Any]:
    """Runs the plan and returns its cells."""
    (shell.home / "shop.toml").write_text(text)
    ended = shell.dyno("run", "shop.toml", "-e", engines, "-o", shell.file, "--overwrite", *words)
    assert ended.status == status, ended.out + ended.err
    return shell.cells()


@pytest.fixture
def twisted(shell: Shell) -> Shell:
    shell.plugins = [TESTS / "plugins" / "twisted"]
    return shell


def test_agreeing_engines_are_valid_and_answers_are_recorded(shell: Shell) -> None:
    require(registry.engine("duckdb").reduce_to_port("sql"))
    cells = run(shell, SHOP, "sqlite,duckdb", "--budget", 20, "-p", "operations=200")
    assert all(cell["valid"] for cell in cells.values())
    assert {phase for _, phase in cells} == {"first", "add", "push", "day"}
    chains: dict[str, list[dict[str, str]]] = {name: [] for name in ("first", "add", "push", "day")}
    for attempt in shell.attempts():
        for sample in attempt["samples"]:
            if chain := sample["facts"].get("answers_chain"):
                chains[sample["phase"]].append(dict(link.split(":") for link in chain.split()))
    for one, other in chains.values():
        assert one["100"] == other["100"]
    header = json.loads(shell.file.read_text().splitlines()[0])
    assert "CREATE INDEX" in header["definition"]["after"][""]


def label(options: str) -> str:
    """The row of the test engine, whose options are in alphabetical order."""
    return "twisted:" + "+".join(sorted(options.split("+")))


def test_row_is_void_if_its_answers_are_wrong(twisted: Shell) -> None:
    # Two rows of SQLite and two of the test engine are the majority.
    engines = ",".join(["sqlite", "sqlite:cache_mib=8", *map(label, BROKEN)])
    cells = run(twisted, SHOP, engines, "--phases", "first", "-p", "operations=4000", "--budget", 20, status=1)
    assert cells["sqlite", "first"]["valid"] and cells["sqlite:cache_mib=8", "first"]["valid"]
    for options, said in BROKEN.items():
        cell = cells[label(options), "first"]
        assert cell["valid"] is (said is None), options
        assert said is None or said in cell["why"]


def test_wrong_rows_after_a_thousand_answers_are_found(twisted: Shell) -> None:
    # A warm-up of as many operations comes first. The first 1,000 answers are also compared value by value.
    wrong = [label("how=cents+every=1101"), label("how=exchange+every=2202")]
    engines = ",".join(["sqlite", *wrong])
    cells = run(twisted, HUNDRED, engines, "--phases", "hundred", "-p", "operations=1200", status=1)
    assert cells["sqlite", "hundred"]["valid"]
    for engine in wrong:
        assert "operation 1,002" in cells[engine, "hundred"]["why"]


def test_a_lost_update_among_eight_clients_is_found(twisted: Shell) -> None:
    wrong = label("how=lose+every=50")
    words = ("--phases", "push", "--clients", 8, "-p", "operations=100", "--budget", 30)
    cells = run(twisted, SHOP, f"sqlite,{wrong}", *words, status=1)
    assert cells["sqlite", "push"]["valid"]
    assert "each acknowledged item is there" in cells[wrong, "push"]["why"]


def test_disagreeing_engines_are_void_without_a_reference(twisted: Shell) -> None:
    engines, words = "sqlite,twisted:how=drop+every=500", ("--phases", "first", "-p", "operations=500")
    cells = run(twisted, SHOP, engines, *words, status=3)
    assert all("reference" in cell["why"] for (engine, _), cell in cells.items() if engine != "null")


VARIANTS = (
    SHOP
    + '''
[sql.variants]
plain.after = ""
upper.transactions.first.script = """
\\\\set k random(1, 10)
SELECT id, price, upper(name) AS name FROM item WHERE kind = :k AND id <= 100 ORDER BY id LIMIT 10;
"""
'''
)


def test_answers_of_variants_are_compared(shell: Shell) -> None:
    words = ("--phases", "first", "-p", "operations=50")
    cells = run(shell, VARIANTS, "sqlite", *words, status=1)
    assert cells["sqlite", "first"]["valid"] and cells["sqlite:variant=plain", "first"]["valid"]
    why = cells["sqlite:variant=upper", "first"]["why"]
    assert "disagrees with sqlite, sqlite plain: first, operation 1 " in why and "not deterministic" not in why
    lines = shell.file.read_text().splitlines(keepends=True)
    shell.file.write_text("".join(lines[:-1]))
    ended = shell.dyno("run", "shop.toml", "-e", "sqlite", "-o", shell.file, "--resume", *words)
    assert ended.status == 1 and len(shell.file.read_text().splitlines()) == len(lines), ended.err


def test_doubts_about_answers_are_named(shell: Shell) -> None:
    beyond = SHOP.replace("random(1, 10)", "random(90, 100)")
    cells = run(shell, beyond, "sqlite", "--phases", "first", "-p", "operations=100")
    codes = {doubt["code"] for doubt in cells["sqlite", "first"]["doubts"]}
    assert {"empty", "same-answer"} <= codes
    plain = SHOP.replace("affects = [1]\n", "").partition("[[sql.checks]]")[0]
    cells = run(shell, plain, "sqlite", "--phases", "push", "--clients", 2, "-p", "operations=50")
    assert "unchecked" in {doubt["code"] for doubt in cells["sqlite", "push"]["doubts"]}


def test_query_and_parameters_from_command_line_are_run(shell: Shell) -> None:
    words = ("-q", "SELECT :x + 1 AS more", "-p", "x=41", "-p", "operations=20", "--samples", 1)
    ended = shell.dyno("run", "sql", "-e", "sqlite", *words, "-o", shell.file)
    assert ended.status == 0, ended.err
    ended = shell.dyno("run", "sql", "-e", "sqlite", *words, "--try")
    assert ended.status == 0 and "[[42]]" in ended.out.replace(" ", "")
    assert "x=41" in ended.out


def test_checks_compare_fractional_values(shell: Shell) -> None:
    """Engines return sums as doubles or decimals."""
    checks = "".join(f"[[sql.checks]]\nquery = {query!r}\n{how}\n" for query, how in (
        ("SELECT sum(price) FROM item WHERE id <= 1000", "unchanged = true"), ("SELECT 1.5", "equals = 1.5"),
        ("SELECT 0", "equals = 0.0"),
    ))  # fmt: skip
    cells = run(shell, SHOP + checks, "sqlite", "--phases", "push", "-p", "operations=20")
    assert cells["sqlite", "push"]["valid"], cells["sqlite", "push"]["why"]
    wrong = SHOP + '[[sql.checks]]\nquery = "SELECT 1.5"\nequals = 1.6\n'
    cells = run(shell, wrong, "sqlite", "--phases", "push", "-p", "operations=20", status=3)
    assert "expected 1.6, got 1.5" in cells["sqlite", "push"]["why"]


def test_compare_count_accepts_differently_broken_ties(twisted: Shell) -> None:
    by_id, by_name = (f"SELECT id FROM item WHERE kind = 1 ORDER BY kind, {by} LIMIT 1" for by in ("id", "name"))
    tie = SHOP.partition("[sql.transactions.first]")[0]
    tie += f"[sql.transactions.tie]\nscript = {{'' = '{by_id}', twisted = '{by_name}'}}\n"
    engines, words = "sqlite,sqlite:cache_mib=8,twisted", ("-p", "operations=20")
    cells = run(twisted, tie, engines, *words, status=1)
    assert "disagrees with sqlite" in cells["twisted", "tie"]["why"]
    assert all(cell["valid"] for cell in run(twisted, tie + 'compare = "count"', engines, *words).values())


def test_variable_values_may_come_from_a_query(shell: Shell) -> None:
    text = SHOP.replace("\\\\set k random(1, 10)\n", "")
    assert text != SHOP
    ended = shell.run_here("run", "sql", "-q", "SELECT :k", "-e", "sqlite")
    assert ended.status == 2 and "-p k=" in ended.err
    few = ("--phases", "first", "-p", "operations=20")
    cells = run(shell, text, "sqlite", *few, "-p", "k=from:SELECT DISTINCT kind FROM item WHERE kind > 8")
    assert cells["sqlite", "first"]["valid"]
    shown = [sample["facts"].get("answers_shown") for line in shell.attempts() for sample in line["samples"]]
    given = set(re.findall(r"k=(\d+)", str(next(filter(None, shown)))))
    assert given == {"9", "10"}


PGBENCH = '''
suite = "sql"
samples = 1
phases = ["tpcb-like", "select-only"]
[sql]
schema = """
CREATE TABLE pgbench_branches (bid int not null, bbalance int, filler char(88), PRIMARY KEY (bid));
CREATE TABLE pgbench_tellers (tid int not null, bid int, tbalance int, filler char(84), PRIMARY KEY (tid));
CREATE TABLE pgbench_accounts (aid int not null, bid int, abalance int, filler char(84), PRIMARY KEY (aid));
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
"""
[sql.tables]
pgbench_branches = { rows = 1, bid = "serial", bbalance = "choose:0" }
pgbench_tellers = { rows = 10, tid = "serial", bid = "choose:1", tbalance = "choose:0" }
pgbench_accounts = { rows = 100_000, aid = "serial", bid = "choose:1", abalance = "choose:0" }
[sql.transactions.tpcb-like]
script = """
\\\\set aid random(1, 100000 * :scale)
\\\\set bid random(1, 1 * :scale)
\\\\set tid random(1, 10 * :scale)
\\\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
affects = [1, 1, 1, 1]
[sql.transactions.select-only]
script = """
\\\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""
[[sql.checks]]
query = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) - (SELECT sum(bbalance) FROM pgbench_branches)"
equals = 0
'''
"""pgbench's tables and its scripts tpcb-like and select-only. Source: PostgreSQL documentation, "pgbench"."""


def test_pgbenchs_scripts_run_unchanged_on_three_engines(shell: Shell) -> None:
    for engine in ("postgresql", "mariadb"):
        require(registry.engine(engine).reduce_to_port("sql"))
    words = ("-p", "operations=200", "-p", "scale=1", "--budget", 20)
    cells = run(shell, PGBENCH, "postgresql,sqlite,mariadb", *words)
    assert all(cell["valid"] for cell in cells.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("first = 3", "frist = 3"), "first"),
        (("affects = [1]", "affects = [1, 1]"), "affects"),
        (("SELECT id, price", "\\\\\\\\sleep 1\nSELECT id, price"), "sleep"),
        (('["add", "push"]', '"ad"'), "add"),
        (('"uniform:0.0..9.0"', '"unifrom:0.0..9.0"'), "uniform"),
        (("samples = 1", "samples = 1\nsqk = 1"), "sqk"),
        (("[sql]", '[sql]\ndata = "there"', 1), "data"),
        (("[sql]", '[sql]\nisolation = "chaos"', 1), "read-committed"),
        (("schema = ", "shema = "), "schema"),
        (("random(1, 10)", ":rate"), "rate"),
    ],
)
def test_definition_mistake_is_a_one_line_error(change: tuple[Any, ...], said: str, shell: Shell) -> None:
    text = SHOP.replace(*change)
    assert text != SHOP
    (shell.home / "shop.toml").write_text(text)
    ended = shell.run_here("run", "shop.toml", "-e", "sqlite", "-o", shell.file)
    assert ended.status == 2 and said in ended.err and len(ended.err.splitlines()) == 1, ended.err
    assert not shell.file.exists()


def test_compare_and_resume_require_the_same_definition(shell: Shell) -> None:
    words = ("--phases", "first", "-p", "operations=50")
    run(shell, SHOP, "sqlite", *words)
    other = shell.home / "other.json"
    other.write_bytes(shell.file.read_bytes())
    assert shell.dyno("compare", other, shell.file).status == 0
    run(shell, SHOP.replace("LIMIT 10", "LIMIT 8"), "sqlite", *words)
    ended = shell.dyno("compare", other, shell.file)
    assert ended.status == 2 and "sql.transactions" in ended.err
    other.replace(shell.file)
    (shell.home / "shop.toml").write_text(SHOP.replace("LIMIT 10", "LIMIT 9"))
    ended = shell.run_here("run", "shop.toml", "-e", "sqlite", "-o", shell.file, "--resume", *words)
    assert ended.status == 2 and "definition" in ended.err


def test_missing_definition_error_says_what_to_write(shell: Shell) -> None:
    ended = shell.run_here("run", "sql", "-e", "sqlite")
    assert ended.status == 2 and "[sql]" in ended.err and "-q" in ended.err
