"""Feeds damaged SQL scripts to the parser of the suite sql. Each must give a script, whose inputs can be made, or an
error of one line.

A case depends only on its number, so that a failure can be repeated: `python tests/fuzz/test_fuzz_scripts.py 4711`.
"""

from __future__ import annotations

import sys
import warnings
from random import Random

import mutate
import pytest

from dyno.contracts.model import UsageError
from dyno.suites.sql.language.script import BATCH, Inputs, Statement, parse

pytestmark = pytest.mark.usefixtures("processes")

GIVEN = {"client_id": 0, "scale": 10, "random_seed": 7, "default_seed": 5432, "c": "Ann"}
SCRIPTS = (
    "\\set aid random(1, 100000 * :scale)\n\\set delta random(-5000, 5000)\nBEGIN;\n"
    "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
    "SELECT abalance FROM pgbench_accounts WHERE aid = :aid \\gset\n\\set rest :abalance * 2 + :delta\n"
    "INSERT INTO history (aid, delta, mtime) VALUES (:aid, :rest, CURRENT_TIMESTAMP);\nEND;\n",
    "\\set r random_zipfian(0, 100000000, 1.07)\n\\set k abs(hash(:r)) % 1000000\n"
    "\\set g random_gaussian(1, :k + 1, 2.5) + random_exponential(1, 10, 0.5)\n"
    "\\set x case when :r < 5 or not :k = 3 then permute(:r, 1000) when :g is null then 1.5e3 else -:k / 7.0 end\n"
    "WITH t AS (SELECT E'\\':r', $q$ ; $q$, \"a;b\", `c`) -- it's\n"
    "SELECT x[1:2], :x::int, ':k' /* ; /* */ */ FROM t;\n",
    "SELECT c, d \\gset p_\n\\set y least(:p_c, 3 << 2, ~1) \\\n  + greatest(:p_d & 7, mod(9, 4), int(2.5))\n"
    "SELECT :y, :c;\\set c 5\nSELECT :c;\n",
)
PIECES = (
    *("\\set ", "\\gset", "\\sleep 1", "\\;", "\\\n", "\\", ":", "::", ":x", ":aid", ":=", ";", "'", '"', "`", "$$"),
    *("$q$", "/*", "*/", "--", "(", ")", "[", "E'", "\n", "\r", "\t", "\0", "\x85", "\u2028", ",", "null", "true"),
    *(
        " is ",
        " not ",
        " and ",
        " or ",
        "case when ",
        " then ",
        " else ",
        " end",
        "+",
        "-",
        "*",
        "/",
        "%",
        "<<",
        ">>",
    ),
    *(
        "<",
        ">=",
        "<>",
        "!=",
        "=",
        "|",
        "#",
        "&",
        "~",
        "0",
        "1",
        "-1",
        "0.0",
        "1e308",
        "1e999",
        ".5",
        "9223372036854775807",
    ),
    *(
        "9223372036854775808",
        "99999999999999999999",
        "random(1, 2)",
        "random(",
        "random_zipfian(1, 5, ",
        "hash(",
        "ln(",
    ),
    *("sqrt(", "exp(", "pow(", "permute(", "abs(", "int(", "double(", "debug(", "pi()", "٣", "ſelect", "é", ":é"),
    *mutate.HOSTILE,
    *(sign * 150 for sign in ("(", "-", "not ", "1+", "case when 1 then ", "abs(")),
)


def damaged(seed: int) -> str:
    random = Random(f"script {seed}")
    text = random.choice(SCRIPTS)
    for _ in range(random.randint(1, 5)):
        start = random.randrange(len(text) + 1)
        stop = min(start + random.choice((0, 0, 1, 1, 3, 10, 40)), len(text))
        other = random.choice(SCRIPTS)
        copied = random.randrange(len(other))
        new = random.choice((random.choice(PIECES), random.choice(PIECES), "", other[copied : copied + 30]))
        text = text[:start] + new + text[stop:]
    return text


def check(seed: int, make_inputs: bool) -> bool:
    """Returns whether the script is accepted."""
    try:
        script = parse(damaged(seed), "a.sql", GIVEN)
        for step in script.steps:
            if isinstance(step, Statement):
                assert len(step.pieces) == len(step.names) + 1
        if make_inputs:
            rows = Inputs(script, [seed], GIVEN).batch(seed)
            assert len(rows) == BATCH
            assert {len(row) for row in rows} == {len(script.inputs)}
            assert {type(value) for row in rows for value in row} <= {int, float, bool, str, type(None)}
    except UsageError as error:
        message = str(error)
        assert message.startswith("a.sql"), message
        assert len(message.splitlines()) == 1, message
        assert message.isprintable(), message
        assert len(message) < 500, message
        return False
    return True


def check_all(seeds: range) -> None:
    accepted = 0
    for seed in seeds:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                accepted += check(seed, make_inputs=seed % 4 == 0)
        except Exception as error:
            raise AssertionError(f"case {seed}: {damaged(seed)!r}") from error
    assert 0.05 < accepted / len(seeds) < 0.9, "both outcomes are common"


def test_damaged_scripts_are_read_or_refused() -> None:
    check_all(range(4_000))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_damaged_scripts_are_read_or_refused() -> None:
    check_all(range(1_000_000, 1_200_000))


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]):
        print(damaged(number))
        print(check(number, make_inputs=True))
