"""Fuzzes the declarations of the suite sql's tables, the CSV files they name, and references of parameters."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import mutate
import numpy as np
import pytest

from dyno.contracts.model import UsageError
from dyno.suites.sql.data.generators import USAGE
from dyno.suites.sql.data.tables import SqlTable, block, draw, read_tables

pytestmark = pytest.mark.usefixtures("processes")

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DECLARED = """product = "product.csv"
customer = { rows = 1_000, id = "serial", name = "words:2", country = "choose:DE*5,FR*3,PL" }
[orders]
rows = 1_000_000
id = "serial:100"
customer_id = "zipf:customer.id:0.9"
sku = "hot:product.sku:20%:80%"
at = "time:2026-01-01..2026-06-30T12:00:00Z"
amount = "decimal:1..500:2?5%"
score = "normal:0:1:2"
ratio = "uniform:0.5..1.5"
parent = "latest:orders.id:1.1"
code = "text:1..9"
key = "uuid"
day = "date:2026-01-01..2026-02-01"
open = "bool:30%"
raw = "bytes:4"
nothing = "null"
"""
CSV = 'sku,price,at\nA,1.5,2026-01-01\n"B,b",2,\n,3,2026-01-02T10:00\n'
TOKENS = (
    *USAGE,
    *(":", "..", ".", "?", "%", "*", ",", "-", "+", " ", "_", "0", "1", "9", "0.5", "5%", "?5%", "?100%"),
    *("customer.id", "product.sku", "orders.id", "orders.customer_id", "none.id", "1..100", "-5..5", "1.5..2"),
    *("2026-01-01", "9999-12-31", "0001-01-01", "T10:00:00Z", "+14:00", "nan", "inf", "1e5", "9" * 19, "9" * 5_000),
    *(
        "9223372036854775807",
        "-9223372036854775808",
        "١",
        "\0",
        "\x1b[2J",
        "\u202e",
        "\ud800",
        "\n",
        "é",
        "x" * 9_000,
    ),
)


def generator(random: Random, text: str) -> str:
    """Inserts, removes or repeats parts of a generator."""
    for _ in range(random.choice((1, 1, 2, 3))):
        start = random.randint(0, len(text))
        stop = min(len(text), start + random.choice((0, 0, 1, 3)))
        text = text[:start] + random.choice(("", *random.choices(TOKENS, k=3))) + text[stop:]
    return text


def declaration(random: Random) -> Any:
    """Returns a damaged declaration: its text as TOML, or single generators, which any text may replace."""
    if random.random() < 0.2:
        try:
            return tomllib.loads(mutate.plan(random, DECLARED).decode(errors="surrogateescape"))
        except (ValueError, RecursionError):
            # The damaged text is not TOML.
            return {}
    declared = tomllib.loads(DECLARED)
    for _ in range(random.choice((1, 1, 2))):
        table = declared[random.choice(("customer", "orders"))]
        name = random.choice([name for name in table if name != "rows"])
        table[name] = generator(random, random.choice((table[name], *random.choices(TOKENS, k=1))))
    return declared


def use_declaration(random: Random, place: Path) -> None:
    """Makes some rows of each table."""
    tables = {name: few(table) for name, table in read_tables(declaration(random), place).items()}
    for table in tables.values():
        assert len({len(values) for values in block(table, tables, 1, 0).values()}) == 1


def use_parameter(random: Random, place: Path) -> None:
    tables = read_tables(tomllib.loads(DECLARED), place)
    text = generator(random, random.choice(("customer.id", "zipf:product.sku", "uniform:1..100", "orders.parent")))
    assert len(draw(text, {name: few(table) for name, table in tables.items()}, 1)(np.random.default_rng(1), 7)) == 7


def use_file(random: Random, place: Path) -> None:
    (place / "damaged.csv").write_bytes(random.choice(mutate.BYTES)(random, CSV.encode()))
    tables = read_tables({"t": "damaged.csv"}, place)
    assert len({len(values) for values in block(tables["t"], tables, 1, 0).values()}) == 1


def few(table: SqlTable) -> SqlTable:
    return replace(table, rows=min(table.rows, 20)) if table.rows else table


USES = (use_declaration, use_parameter, use_file)


@pytest.mark.parametrize("use", USES)
def test_damaged_tables_are_read_or_refused(use: Callable[[Random, Path], None], tmp_path: Path) -> None:
    check_seeds(use, range(1_000), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("use", USES)
def test_many_damaged_tables_are_read_or_refused(use: Callable[[Random, Path], None], tmp_path: Path) -> None:
    check_seeds(use, range(1_000_000, 1_050_000), tmp_path)


def check_seeds(use: Callable[[Random, Path], None], seeds: range, place: Path) -> None:
    """Expects each seed to give tables, or an error of one line."""
    (place / "product.csv").write_text(CSV)
    refusals: Counter[str] = Counter()
    for seed in seeds:
        try:
            use(Random(f"{use.__name__} {seed}"), place)
        except UsageError as error:
            assert str(error).isprintable(), f"seed {seed}: {str(error)!r}"
            refusals[str(error)[-60:]] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}") from error
    assert 0.05 < refusals.total() / len(seeds) < 0.95, refusals.most_common(9)
    assert len(refusals) > 5, refusals
