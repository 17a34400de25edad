"""Fuzzes definitions of the suite sql: each gives a suite, or one line that says what is wrong."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random

import mutate
import pytest

from dyno import registry
from dyno.contracts.model import UsageError
from dyno.contracts.roles import define_suite, inline_definition
from dyno.suites.sql.definition import HOW, KEYS, OF_CHECK, OF_TRANSACTION

pytestmark = pytest.mark.usefixtures("processes")

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFINED = r"""
schema = "schema.sql"
after = "CREATE INDEX i ON orders (customer_id)"
isolation = "read-committed"
reference = "postgresql"
[tables]
customer = { rows = 1_000, id = "serial", name = "words:2" }
product = "product.csv"
[tables.orders]
rows = 5_000
id = "serial"
customer_id = "zipf:customer.id:0.9"
[transactions.history]
script = '''
\set c random_zipfian(1, 1000, 1.1)
SELECT id, at FROM orders WHERE customer_id = :c AND kind = :kind LIMIT 10;
'''
compare = ["id", "at"]
tolerance = 1e-3
[transactions.order]
script = "order.sql"
affects = [1, 1]
[transactions.count]
script = { "" = "SELECT 1", mariadb = "SELECT 1 FROM dual" }
compare = "count"
ordered = true
[mixes.day]
history = 80
order = 20.5
[variants.indexed]
after = "schema.sql"
[variants.other]
transactions.count.script = "SELECT 2"
settings.sqlite = { cache_mib = 8, set = { temp_store = "memory" } }
[[checks]]
says = "each order is there"
query = "SELECT count(*) FROM orders"
grows_by = ["order"]
[[checks]]
query = "SELECT 0"
equals = 0
"""
FILES = {
    "schema.sql": "CREATE TABLE orders (id int); CREATE TABLE customer (id int)",
    "schema.mariadb.sql": "CREATE TABLE orders (id int)",
    "order.sql": "BEGIN; UPDATE a SET b = :n; INSERT INTO c VALUES (:client_id); COMMIT;",
    "product.csv": "sku,price\nA,1.5\n",
}
TOKENS = (
    *(*KEYS, *OF_TRANSACTION, *OF_CHECK, *HOW, "there", "count", "none", "all", "history", "order", "mariadb", ""),
    *("schema.sql", "../schema.sql", "/", "nothing.sql", "product.csv", ".sql", "\\set x 1", "SELECT :x", ":", "\\"),
    *("[", "]", "{", "}", '"""', "=", "\n", ",", "true", "nan", "inf", "1e999", "-1", "0", "9" * 40),
    *("\0", "\x1b[2J", "\u202e", "é", "serializable", "[transactions]", "[[checks]]", "[mixes.history]"),
)


def damaged(random: Random) -> str:
    """Returns the definition with parts inserted, removed or replaced."""
    if random.random() < 0.3:
        return mutate.plan(random, DEFINED).decode(errors="surrogateescape")
    text = DEFINED
    for _ in range(random.choice((1, 1, 2, 3))):
        start = random.randint(0, len(text))
        stop = min(len(text), start + random.choice((0, 0, 1, 4, 12)))
        text = text[:start] + random.choice(("", *random.choices(TOKENS, k=3))) + text[stop:]
    return text


def test_damaged_definitions_are_read_or_refused(tmp_path: Path) -> None:
    check_seeds(range(2_000), tmp_path)


@pytest.mark.soak
def test_many_damaged_definitions_are_read_or_refused(tmp_path: Path) -> None:
    check_seeds(range(1_000_000, 1_100_000), tmp_path)


def check_seeds(seeds: range, place: Path) -> None:
    """Expects each seed to give a suite, or an error of one line."""
    for name, text in FILES.items():
        (place / name).write_text(text)
    suite, ends = registry.suite("sql"), Counter[str]()
    for seed in seeds:
        try:
            data = tomllib.loads(damaged(Random(seed)))
        except (ValueError, RecursionError):
            ends["no TOML"] += 1
            continue
        try:
            found = define_suite(suite, inline_definition(suite, data, place))
        except UsageError as error:
            assert str(error).isprintable(), f"seed {seed}: {str(error)!r}"
            ends["refused"] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}") from error
        else:
            assert found.phases
            ends["made"] += 1
    assert ends["refused"] > 0.1 * len(seeds) and ends["made"] > 0.02 * len(seeds), ends
