"""Tests scripts of the suite sql: where statements end, which values variables have, expressions against pgbench's
rules, distributions against their formulas, and what is refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from dyno.contracts.model import UsageError
from dyno.suites.sql.language import script
from dyno.suites.sql.language.script import BATCH, Inputs, Script, Set, Statement, parse

PGBENCH = {"client_id": 0, "scale": 10, "random_seed": 7, "default_seed": 5432}
TPCB = """\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
SIMPLE = "\n".join(line for line in TPCB.splitlines() if "tellers" not in line and "branches" not in line)
SELECT_ONLY = """\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""


def statements(text: str, *given: str) -> tuple[Statement, ...]:
    return parse(text, "a.sql", given).statements


def values(expression: str, batches: int = 1, seed: int = 1, **given: Any) -> list[Any]:
    read = parse(f"\\set x {expression}\nSELECT :x", "a.sql", {**PGBENCH, **given})
    inputs = Inputs(read, [seed], {**PGBENCH, **given})
    return [value for number in range(batches) for (value,) in inputs.batch(number)]


def value(expression: str, **given: Any) -> Any:
    """Returns the value that all operations have, and checks that it is the value of a single operation."""
    every = values(expression, **given)
    assert len(every) == BATCH
    step = parse(f"\\set x {expression}\nSELECT :x", "a.sql", {**PGBENCH, **given}).steps[0]
    assert isinstance(step, Set)
    alone = step.expression.evaluate({**PGBENCH, **given})
    assert {(type(each), each) for each in every} == {(type(alone), alone)}
    return alone


def error(text: str, *given: str) -> str:
    with pytest.raises(UsageError) as raised:
        parse(text, "a.sql", given)
    return str(raised.value)


# -- pgbench's own scripts ----------------------------------------------------------------------------------


def test_pgbench_builtin_scripts_are_read_unchanged() -> None:
    tpcb = parse(TPCB, "tpcb", PGBENCH)
    keywords = ["BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "COMMIT"]
    assert [s.keyword for s in tpcb.statements] == keywords
    assert tpcb.statements[-1].pieces == ("COMMIT",), "END, which MariaDB lacks"
    assert [s.line for s in tpcb.statements] == list(range(5, 12))
    assert tpcb.statements[2] == Statement(
        ("SELECT abalance FROM pgbench_accounts WHERE aid = ", ""), ("aid",), None, "SELECT", 7, False
    )
    assert tpcb.inputs == ("delta", "aid", "tid", "bid")
    assert tpcb.writes
    assert [s.keyword for s in parse(SIMPLE, "simple", PGBENCH).statements] == [
        "BEGIN",
        "UPDATE",
        "SELECT",
        "INSERT",
        "COMMIT",
    ]
    select = parse(SELECT_ONLY, "select", PGBENCH)
    assert (select.inputs, select.writes) == (("aid",), False)
    (column,) = zip(*Inputs(select, [1], PGBENCH).batch(3), strict=True)
    assert 1 <= min(column) < 20_000 and 980_000 < max(column) <= 1_000_000
    assert {type(each) for each in column} == {int}


@pytest.mark.claim("A script's inputs depend only on the seed and the operation's number")
def test_input_batch_is_independent_of_other_batches() -> None:
    read = parse(TPCB, "tpcb", PGBENCH)
    inputs = Inputs(read, [3, 4], PGBENCH)
    batches = [inputs.batch(number) for number in range(4)]
    assert Inputs(read, [3, 4], PGBENCH).batch(2) == batches[2] == inputs.batch(2)
    assert len({tuple(batch) for batch in batches}) == 4
    assert Inputs(read, [3, 5], PGBENCH).batch(2) != batches[2]
    # Further variables don't change the others.
    longer = parse(f"\\set more random(1, 9)\n{TPCB}SELECT :more;", "tpcb", PGBENCH)
    assert [row[:4] for row in Inputs(longer, [3, 4], PGBENCH).batch(2)] == batches[2]


def test_inputs_of_a_script_take_under_2_microseconds() -> None:
    inputs, spans = Inputs(parse(TPCB, "tpcb", PGBENCH), [1], PGBENCH), []
    for number in range(30):
        start = time.process_time()
        inputs.batch(number)
        spans.append(time.process_time() - start)
    assert min(spans) / BATCH < 2e-6


# -- statements ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pieces", "names"),
    [
        ("SELECT :a;", ("SELECT ", ""), ("a",)),
        ("SELECT :a", ("SELECT ", ""), ("a",)),
        ("SELECT :a+:b, :a", ("SELECT ", "+", ", ", ""), ("a", "b", "a")),
        ("SELECT ':a', 'it''s :a;', :b", ("SELECT ':a', 'it''s :a;', ", ""), ("b",)),
        (r"SELECT E'\':a;', e'\\', :b", (r"SELECT E'\':a;', e'\\', ", ""), ("b",)),
        (r"SELECT '\', :b", (r"SELECT '\', ", ""), ("b",)),
        ('SELECT ":a;""" AS "x"', ('SELECT ":a;""" AS "x"',), ()),
        ("SELECT `:a;` FROM `t`", ("SELECT `:a;` FROM `t`",), ()),
        ("SELECT $$:a;'$$, $q$ $$ :a; $q$, :b", ("SELECT $$:a;'$$, $q$ $$ :a; $q$, ", ""), ("b",)),
        ("SELECT :a::int, b::text", ("SELECT ", "::int, b::text"), ("a",)),
        ("SELECT x[1:2], x[:a], @v := 1", ("SELECT x[1:2], x[", "], @v := 1"), ("a",)),
        ("SELECT 1 /* :a; /* ' */ ; */ + :b", ("SELECT 1 /* :a; /* ' */ ; */ + ", ""), ("b",)),
        ("-- it's :a;\nSELECT 1 -- ;\n + 2", ("SELECT 1 \n + 2",), ()),
        ("CREATE RULE r AS ON INSERT TO t DO (DELETE FROM u; DELETE FROM v);", None, ()),
        ("SELECT a -> 'x', a - -1, 5 - :a", ("SELECT a -> 'x', a - -1, 5 - ", ""), ("a",)),
        ("SELECT :über", ("SELECT ", ""), ("über",)),
    ],
)
def test_parameters_are_found_outside_quotes_and_comments(text: str, pieces: Any, names: Any) -> None:
    (statement,) = statements(text, "a", "b", "über")
    assert statement.pieces == (pieces or (text[:-1],))
    assert statement.names == names


def test_statements_end_at_semicolons_and_commands() -> None:
    text = "SELECT 1; ; ;SELECT\n 2;\n/* no statement */;\nSELECT 3 \\set a 1 + \\\n  1\n(VALUES (:a)) -- end"
    assert [(s.pieces, s.keyword, s.line) for s in statements(text)] == [
        (("SELECT 1",), "SELECT", 1),
        (("SELECT\n 2",), "SELECT", 1),
        (("SELECT 3",), "SELECT", 4),
        (("(VALUES (", "))"), "VALUES", 6),
    ]
    assert statements(text.replace("\n", "\r\n"))[3].line == 6


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        *((text, False) for text in ("select 1", "(SELECT 1)", "VALUES (1)", "TABLE t", "SHOW x", "BEGIN", "commit")),
        *((text, False) for text in ("START TRANSACTION READ ONLY", "SET LOCAL x = 1", "END", "ROLLBACK TO a")),
        ("SELECT * FROM t FOR UPDATE", False),
        ("SELECT 1 AS \"into\", 'INSERT INTO t' /* INTO */", False),
        ("SELECT a INTO b FROM c", True),
        ("WITH x AS (SELECT 1) SELECT * FROM x FOR NO KEY UPDATE", False),
        ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", True),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", True),
        ("EXPLAIN INSERT INTO t VALUES (1)", False),
        ("EXPLAIN (ANALYZE) INSERT INTO t VALUES (1)", True),
        ("EXPLAIN ANALYZE SELECT 1", False),
        ("SELECT insert('abc', 1, 1, 'x')", False),
        ("WITH x AS (SELECT insert('abc', 1, 1, 'x')) SELECT * FROM x", False),
        *(
            (f"{word} x", True)
            for word in ["INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "CREATE", "DROP", "TRUNCATE", "CALL", "DO"]
        ),
        ("START TRANSACTION READ WRITE", True),
        ("SET GLOBAL x = 1", True),
        ("SET default_transaction_read_only = off", True),
    ],
)
def test_a_statement_that_may_change_data_is_recognised(text: str, writes: bool) -> None:
    read = parse(text, "a.sql")
    assert read.statements[0].writes is writes is read.writes


# -- variables ----------------------------------------------------------------------------------------------


def bound(read: Script, given: Mapping[str, Any], *results: Mapping[str, Any]) -> list[list[Any]]:
    """Executes a script as the suite does, for the first operation: returns the values that its statements get.
    `results`: the rows of the statements with \\gset."""
    variables = dict(zip(read.inputs, Inputs(read, [1], given).batch(0)[0], strict=True))
    rows, values = iter(results), []
    for step in read.steps:
        if isinstance(step, Statement):
            values.append([variables[name] for name in step.names])
            if step.gset is not None:
                variables.update({step.gset + name: each for name, each in next(rows).items()})
        elif step.late:
            variables[step.name] = step.expression.evaluate(variables)
    return values


def test_gset_ends_a_statement_and_sets_variables() -> None:
    for end in ("\\gset p_", ";\\gset p_", ";\n\\gset p_ \n", "/* c */ \\GSET p_"):
        read = parse(f"SELECT 1 AS a {end}\nSELECT :p_a", "a.sql")
        assert [s.gset for s in read.statements] == ["p_", None]
        assert read.inputs == ()
        assert bound(read, {}, {"a": 5}) == [[], [5]]


def test_set_after_gset_is_evaluated_in_transaction() -> None:
    read = parse("\\set k 2\nSELECT a FROM t \\gset\n\\set b :a * :k + 1\nSELECT :b", "a.sql")
    assert read.inputs == ("k",)
    assert [step.late for step in read.steps if isinstance(step, Set)] == [False, True]
    for a, b in ((20, 41), ("20", 41), ("2.5", 6.0), (None, None), ("null", None), (Decimal("2e1"), 41.0)):
        assert bound(read, {}, {"a": a}) == [[], [b]]
    with pytest.raises(UsageError, match=r"a\.sql, line 3: \\set b: variable a is undefined"):
        bound(read, {}, {"other": 1})
    with pytest.raises(UsageError, match=r"a\.sql, line 3: \\set b: variable a is no number: Monday"):
        bound(read, {}, {"a": "Monday"})
    with pytest.raises(UsageError, match=r"a\.sql, line 3: \\set b: overflow"):
        bound(read, {}, {"a": 2**62})


def test_reassigned_variable_has_each_value_in_turn() -> None:
    read = parse("\\set a 1\nSELECT :a;\\set a :a + 1\nSELECT :a, :c;\\set c 9\nSELECT :c", "a.sql", ["c"])
    assert read.inputs == ("a", "a:2", "c", "c:2")
    assert bound(read, {"c": 5}) == [[1], [2, 5], [9]]


def test_latest_set_or_gset_wins() -> None:
    text = "\\set a 1\n\\set a 2\nSELECT :a AS a, 7 AS b \\gset\nSELECT :a;\n\\set a 3\nSELECT :a;\n"
    text += "\\set a :b + :a\nSELECT :a"
    read = parse(text, "a.sql")
    assert bound(read, {}, {"a": 10, "b": 20}) == [[2], [10], [3], [23]]
    assert bound(read, {}, {"b": 20}) == [[2], [2], [3], [23]]


def test_gset_changes_only_columns_of_its_statement() -> None:
    text = "SELECT balance FROM accounts {} \\gset\n\\set x random(1, :scale)\nSELECT :x, :balance"
    read = parse(text.format("WHERE id = 5"), "a.sql", PGBENCH)
    assert read.inputs == ("x",)
    assert "random numbers must be the same" in error(text.format(", scale"), *PGBENCH)
    assert "random numbers must be the same" in error(text.replace("balance F", "* F").format(""), *PGBENCH)


def test_given_variables_are_constant_or_drawn() -> None:
    read = parse("\\set y :d * 2\nSELECT :c, :d, :y, :name", "a.sql", ["c", "d", "name"])
    draw: dict[str, Any] = {
        "d": lambda generator, count: generator.integers(0, 100, count),
        "c": lambda _, count: ["x"] * count,
    }
    rows: Any = Inputs(read, [1], {**draw, "name": "Ann"}).batch(5)
    assert [(c, y, name) for c, d, y, name in rows] == [("x", 2 * d, "Ann") for _, d, _, _ in rows]
    assert len({d for _, d, _, _ in rows}) == 100
    with pytest.raises(UsageError, match="variable c has no value; give one with -p c="):
        Inputs(read, [1], {"d": 1, "name": "Ann"})
    with pytest.raises(UsageError, match=r"a\.sql: variable d is no number: Ann"):
        Inputs(read, [1], {"c": 1, "d": "Ann", "name": 2}).batch(0)


def test_unused_set_is_not_evaluated() -> None:
    read = parse("\\set x 1 / 0\nSELECT 1", "a.sql")
    assert Inputs(read, [1], {}).batch(0) == [()] * BATCH


# -- expressions --------------------------------------------------------------------------------------------

MIN = -(2**63)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Precedence.
        *(("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("10 - 4 - 3", 3), ("-2 * -3", 6), ("- - 2", 2), ("+5", 5)),
        *(("1 | 2 + 4", 7), ("~1 + 2", -4), ("~0 & 6", 6), ("1 << 2 + 1", 8), ("6 & 3 | 8", 10), ("5 # 1", 4)),
        *(("1 + 1 = 2", True), ("NOT 1 = 2", True), ("not true or true", True), ("true or true and false", True)),
        *(("1 < 2 is true", True), ("not null is null", False), ("2 = 1 + 1 and 3 >= 3", True), ("1 <> 2", True)),
        *(("1 != 1", False), ("2 > 1", True), ("2 <= 1.5", False), ("1 notnull", True), ("null isnull", True)),
        *(("1 is not null", True), ("null is not true", True), ("false is not false", False), ("1 IS NULL", False)),
        # Types and rounding.
        *(("7 / 2", 3), ("-7 / 2", -3), ("7 / -2", -3), ("-7 % 3", -1), ("7 % -3", 1), ("7 / 2.0", 3.5)),
        *(("1 + .5", 1.5), ("5e-1", 0.5), ("1e3", 1000.0), ("2.", 2.0), ("5.5 % 2", 0), ("1.0 = 1", True)),
        *(("int(2.5)", 2), ("int(3.5)", 4), ("int(-0.6)", -1), ("double(3)", 3.0), ("mod(54, 32)", 22)),
        *(("9223372036854775807", 2**63 - 1), ("-9223372036854775808", MIN), ("-9223372036854775808 % -1", 0)),
        *(("1 << 63", MIN), ("-1 >> 1", -1), ("3 << 62", -(2**62)), ("9223372036854775807 & -1", 2**63 - 1)),
        # Null.
        *(("null + 1", None), ("abs(null)", None), ("null and false", None), ("false and null", False)),
        *(("true or null", True), ("null or true", None), ("least(1, null)", None), ("random(1, null)", None)),
        # CASE is lazy, and so are AND and OR.
        *(("case when 1 then 2 end", 2), ("case when null then 2 end", None), ("case when 0.0 then 1 else 2 end", 2)),
        *(("case when true then 1 when 1/0 = 1 then 2 else 1/0 end", 1), ("false and 1/0 = 1", False)),
        *(("true or 1/0 = 1", True), ("CASE WHEN 2 > 3 THEN 1 WHEN 3 > 2 THEN 2.5 ELSE 3 END", 2.5)),
        # The examples of pgbench's documentation.
        *(("abs(-17)", 17), ("double(5432)", 5432.0), ("exp(1.0)", 2.718281828459045), ("greatest(5, 4, 3, 2)", 5)),
        *(("hash(10, 5432)", -5817877081768721676), ("hash_fnv1a(10, 5432)", -7793829335365542153)),
        *(("hash_murmur2(10, 5432)", -5817877081768721676), ("int(5.4 + 3.8)", 9), ("least(5, 4, 3, 2.1)", 2.1)),
        *(("ln(2.718281828459045)", 1.0), ("pi()", 3.141592653589793), ("pow(2.0, 10)", 1024.0)),
        *(("power(2.0, 10)", 1024.0), ("sqrt(2.0)", 1.414213562373095), ("5 - 4", 1), ("3 * 5.0", 15.0)),
        # default_seed is 5432, and scale 10.
        *(("hash(10)", -5817877081768721676), ("HASH(:scale)", -5817877081768721676), ("hash(-1) <> hash(1)", True)),
    ],
)
def test_expression_value_equals_that_of_pgbench(text: str, expected: Any) -> None:
    result = value(text)
    assert type(result) is type(expected)
    assert result == (pytest.approx(expected, rel=1e-15) if isinstance(expected, float) else expected)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "division by zero") for text in ("1 / 0", "1 % :zero", "1.5 / 0", "-1 / (:scale - 10)")),
        *((f"{MIN} {rest}", "overflow") for rest in ("- 1", "/ -1", "* 2", "+ :scale * -1")),
        *((text, "overflow") for text in ("abs(-9223372036854775808)", "int(1e19)", "9223372036854775807 + :scale")),
        *((text, "no finite value") for text in ("ln(0)", "sqrt(-1)", "exp(1000)", "1e308 * 10", "pow(-1, 0.5)")),
        *(
            (text, "expected a number, got a boolean")
            for text in ("true + 1", "abs(true)", "true = false", "int(true)")
        ),
        *((text, "expected a boolean, got") for text in ("not 1", "1 and true", "true and 1", "false or 2.5")),
        *((text, "0 to 63 bits") for text in ("1 << 64", "1 >> -1")),
        ("random(2, 1)", r"random\(2, 1\) has an empty range"),
        ("random(-9223372036854775807, 9223372036854775807)", "more than 2"),
        ("random_exponential(1, 2, 0)", "greater than 0, got 0"),
        ("random_gaussian(1, 2, 1.9)", r"from 2\.0 on, got 1\.9"),
        *((f"random_zipfian(1, 2, {s})", rf"from 1\.001 to 1000, got {s}") for s in ("1.0", "1001.0")),
        ("permute(1, 0)", "from 1 to 2"),
        ("case when random(1, 100) = 50 then 1 / 0 end", "division by zero"),
    ],
)
def test_evaluation_error_names_script_and_line(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=rf"^a\.sql, line 1: \\set x: .*{reason}") as raised:
        values(text, zero=0)
    assert "\n" not in str(raised.value)


# Arrays with values of one type, and with values of all types.
COLUMNS: list[list[Any]] = [
    [1, 2, 3, 62],
    [-7, -3, 3, 8],
    [1, -7, 2**31, 2**62, 2**63 - 1, MIN],
    [0.5, -2.5, 1e10, 1e300],
    [True, False],
    [0, 3, -7, 2**62, 2.5, None, True, False],
]
OPERATORS = ["+", "-", "*", "/", "%", "&", "|", "#", "<<", ">>", "<", "<=", "=", "<>", ">", ">=", "and", "or"]
FUNCTIONS = ["least", "greatest", "mod", "hash", "hash_fnv1a", "hash_murmur2", "pow"]
ALONE = ["abs", "double", "int", "sqrt", "not", "~", "-", "exp", "ln"]


def agree(expression: str, a: list[Any], b: list[Any]) -> bool:
    """Compares a batch's values for all pairs with those of single operations. Returns False if both fail."""
    pairs = list(product(a, b))
    pairs = (pairs * script.BATCH)[: script.BATCH]
    read = parse(f"\\set x {expression}\nSELECT :x", "a.sql", "ab")
    given = {"a": lambda *_: [a for a, _ in pairs], "b": lambda *_: [b for _, b in pairs]}
    (step,) = (step for step in read.steps if isinstance(step, Set))
    try:
        found = [x for (x,) in Inputs(read, [1], given).batch(0)]
    except UsageError:
        with pytest.raises(UsageError):
            for a_value, b_value in pairs:
                step.expression.evaluate({"a": a_value, "b": b_value})
        return False
    for (a_value, b_value), x in zip(pairs[: len(a) * len(b)], found, strict=False):
        alone = step.expression.evaluate({"a": a_value, "b": b_value})
        assert (type(alone), alone) == (type(x), x), (expression, a_value, b_value)
    return True


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "BATCH", max(map(len, COLUMNS)) ** 2)


@pytest.mark.usefixtures("small_batches")
def test_batch_evaluation_equals_single_for_operators_and_functions() -> None:
    """A batch's values are calculated by other functions than those of one operation."""
    forms = [f":a {operator} :b" for operator in OPERATORS]
    forms += [f"{name}(:a, :b)" for name in FUNCTIONS] + [f"{name}(:a) = :b" for name in ALONE]
    agreed = Counter(agree(form, a, b) for form in forms for a in COLUMNS for b in COLUMNS)
    assert min(agreed[True], agreed[False]) > 300


@pytest.mark.usefixtures("small_batches")
def test_batch_evaluation_equals_single_for_nested_expressions() -> None:
    random = Random(5)

    def expression(depth: int) -> str:
        if depth == 0:
            return random.choice((":a", ":b", ":a", ":b", "2", "-3", "1.5", "null", "true"))
        one, other, third = (expression(depth - 1) for _ in range(3))
        forms = [f"({one} {random.choice(OPERATORS)} {other})", f"{random.choice(FUNCTIONS)}({one}, {other})"]
        forms += [f"case when {one} then {other} when :a is null then 5 else {third} end", f"({one} is null)"]
        return random.choice(forms)

    agreed = Counter(agree(expression(1 + seed % 3), *random.sample(COLUMNS, 2)) for seed in range(400))
    assert min(agreed[True], agreed[False]) > 50


def test_permute_is_a_bijection_chosen_by_seed() -> None:
    read = parse("\\set x permute(:i, 1000, :s)\nSELECT :x", "a.sql", ["i", "s"])
    orders: Any = [
        [x for (x,) in Inputs(read, [1], {"i": lambda _, count: list(range(count)), "s": seed}).batch(0)]
        for seed in (1, 1, 2, -1)
    ]
    assert [sorted(order) for order in orders] == [list(range(1000))] * 4
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3
    assert value("permute(-1, 10, 3)") == value("permute(9, 10, 3)")
    sizes = values("permute(5, :n)", n=lambda _, count: [1 + row % 3 for row in range(count)])
    assert max(sizes) < 3


# -- distributions ------------------------------------------------------------------------------------------

LOW, HIGH, DRAWS = -3, 6, 40
NUMBERS = np.arange(LOW, HIGH + 1)
SIZE = len(NUMBERS)


def normal_share(parameter: float) -> Any:
    middle = (LOW + HIGH) / 2
    edges = norm.cdf(2 * parameter * (np.append(NUMBERS, HIGH + 1) - 0.5 - middle) / SIZE)
    return np.diff(edges) / (2 * norm.cdf(parameter) - 1)


def exponential_share(parameter: float) -> Any:
    return -np.diff(np.exp(-parameter * np.arange(SIZE + 1) / SIZE)) / (1 - np.exp(-parameter))


def zipfian_share(parameter: float) -> Any:
    weights = 1 / np.arange(1, SIZE + 1) ** parameter
    return weights / weights.sum()


@pytest.mark.claim("Random functions of scripts have pgbench's distributions")
@pytest.mark.parametrize(
    ("function", "shares"),
    [
        ("random({})", np.full(SIZE, 1 / SIZE)),
        *((f"random_gaussian({{}}, {p})", normal_share(p)) for p in (2.0, 2.5, 4)),
        *((f"random_exponential({{}}, {p})", exponential_share(p)) for p in (1e-9, 0.5, 3, 10)),
        *((f"random_zipfian({{}}, {s})", zipfian_share(s)) for s in (1.001, 1.5, 3)),
    ],
    ids=str,
)
def test_random_functions_match_their_probability_formulas(function: str, shares: Any) -> None:
    drawn = np.array(values(function.format(f"{LOW}, {HIGH}"), DRAWS))
    seen = np.bincount(drawn - LOW, minlength=SIZE)
    assert len(seen) == SIZE, "nothing is outside the range"
    # Numbers with few expected draws are counted together with the first one.
    expected = shares * len(drawn)
    few = np.flatnonzero(expected < 5)
    for counts in (seen, expected):
        counts[0] += counts[few].sum()
    assert chisquare(np.delete(seen, few), np.delete(expected, few), sum_check=False).pvalue > 0.001


def test_ranges_and_parameters_may_differ_between_operations() -> None:
    # Odd rows draw from 1 to 2, even ones from 1 to 1000.
    given: dict[str, Any] = {
        "n": lambda _, count: [2, 1000] * (count // 2),
        "s": lambda _, count: [3, 1.001] * (count // 2),
    }
    for function in ("random(1, :n)", "random_zipfian(1, :n, :s)", "random_exponential(1, :n, :s)"):
        drawn = values(function, 20, **given)
        assert set(drawn[::2]) == {1, 2}
        assert 100 < max(drawn[1::2]) <= 1000
    ones = values("random_zipfian(1, :n, :s)", 20, **given)[::2].count(1)
    assert ones / 10_000 == pytest.approx(8 / 9, abs=0.01)


def test_random_functions_cover_the_largest_ranges() -> None:
    for function in ("random", "random_gaussian", "random_exponential", "random_zipfian"):
        parameter = {"random": "", "random_gaussian": ", 2", "random_exponential": ", 0.1"}.get(function, ", 1.001")
        drawn = values(f"{function}(0, 9223372036854775806{parameter})")
        assert min(drawn) >= 0
        assert 2**60 < max(drawn) < 2**63
    assert set(values("random(9223372036854775807, 9223372036854775807)")) == {2**63 - 1}
    assert set(values("random_zipfian(5, 1000000, 1000)")) == {5}


def test_two_calls_draw_independent_numbers() -> None:
    read = parse("\\set x random(0, 1) * 2 + random(0, 1)\n\\set y random(0, 1)\nSELECT :x, :y", "a.sql")
    rows: Any = [row for number in range(8) for row in Inputs(read, [1], {}).batch(number)]
    seen = np.bincount([2 * x + y for x, y in rows], minlength=8)
    assert chisquare(seen).pvalue > 0.001
    # A call that only some operations reach draws for them alone, and as well in every run.
    some = values("case when random(1, 4) = 1 then random(1, 3) end")
    assert set(some) == {None, 1, 2, 3}
    assert some == values("case when random(1, 4) = 1 then random(1, 3) end")


# -- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "facts"),
    [
        *((f"SELECT 1;\n\\{name} 1", 2, (f"\\{name} is not supported",)) for name in ["sleep", "shell", "setshell"]),
        *((f"SELECT 1;\n\\{name}", 2, (f"\\{name} is not supported",)) for name in ["if", "elif", "else", "endif"]),
        *((f"\\{name}", 1, (f"\\{name} is not",)) for name in ["startpipeline", "syncpipeline", "endpipeline"]),
        ("SELECT 1 \\aset", 1, ("\\aset is not supported", "\\gset")),
        ("SELECT 1 \\; SELECT 2;", 1, ("\\; is not supported",)),
        ("\\copy t", 1, ("\\copy is no command", "\\set and \\gset")),
        ("\\", 1, ("no command",)),
        ("SELECT 1;\nSELECT :cusotmer", 2, ("variable cusotmer is undefined", "did you mean customer?")),
        ("\\set x :y", 1, ("\\set x", "variable y is undefined")),
        ("SELECT :a\\gset p\nSELECT :other", 2, ("other",)),
        ("SELECT 1;\nSELECT\n 'a\n;", 3, ("string",)),
        ("SELECT\n E'a\\'", 2, ("string",)),
        ('SELECT "a', 1, ("quoted name",)),
        ("SELECT `a", 1, ("quoted name",)),
        ("\n\nSELECT $a$ $b$", 3, ("string",)),
        ("SELECT 1;\n /* a /* b */ \n", 2, ("comment",)),
        ("SELECT (\n(1)", 1, ("parenthesis",)),
        ("SELECT (1 \\gset", 1, ("parenthesis",)),
        ("123;", 1, ("expected an SQL statement, got 123",)),
        ("\\set", 1, ("\\set NAME EXPRESSION",)),
        ("\\set x\nSELECT 1", 1, ("\\set NAME EXPRESSION",)),
        ("\\set 1x 2", 1, ("\\set NAME EXPRESSION",)),
        *((f"\\set x {text}", 1, ("\\set x: unexpected end",)) for text in ("1 +", "(", "case when", "-", "not")),
        *(
            (f"\\set x {text}", 1, ("unexpected",))
            for text in ("1 2", "5;", "'a'", ")", "1 < 2 < 3", "x is null", "!1")
        ),
        ("\\set x 1 is null is null", 1, ("unexpected is",)),
        ("\\set x 1 is 5", 1, ("expected NULL, TRUE or FALSE, got 5",)),
        ("\\set x case when 1 else 2 end", 1, ("expected THEN, got else",)),
        ("\\set x (1", 1, ("expected ), got end",)),
        ("\\set x rndom(1, 2)", 1, ("rndom is no function", "did you mean random?")),
        ("\\set x a + 1", 1, ("unexpected a; a variable is written :name",)),
        ("\\set x debug(1)", 1, ("debug() is not supported",)),
        ("\\set x random(1)", 1, ("random() takes 2 arguments, got 1",)),
        ("\\set x hash()", 1, ("hash() takes 1 or 2 arguments",)),
        ("\\set x least()", 1, ("least() takes at least 1 argument",)),
        ("\\set x hash(1)", 1, ("variable default_seed is undefined",)),
        ("\\set x 9223372036854775808", 1, ("64 bits",)),
        ("\\set x 1e999", 1, ("too large",)),
        (f"\\set x {'(' * 200}1{')' * 200}", 1, ("deep",)),
        (f"\\set x {'-' * 200}1", 1, ("deep",)),
        (f"\\set x 1{'+1' * 300}", 1, ("more than 200 operators",)),
        ("\\gset", 1, ("\\gset must follow an SQL statement",)),
        ("SELECT 1 \\gset\n\\gset", 2, ("\\gset must follow",)),
        ("SELECT 1;\\set x 1\n\\gset", 2, ("\\gset must follow",)),
        ("SELECT 1 \\gset 1 2", 1, ("\\gset PREFIX",)),
        ("SELECT a \\gset\n\\set b random(1, :a)", 2, ("\\set b", "\\gset", "same for all engines")),
    ],
)
def test_script_mistake_is_refused_with_its_line(text: str, line: int, facts: tuple[str, ...]) -> None:
    message = error(text, "a", "customer")
    assert message.startswith(f"a.sql, line {line}: ")
    assert "\n" not in message
    for fact in facts:
        assert fact in message, message


def test_a_script_needs_a_statement() -> None:
    for text in ("", ";", "-- a\n", "/* a */", "\\set x 1"):
        assert error(text) == "a.sql: the script has no statement"
