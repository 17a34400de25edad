"""Tests the generated tables of the suite sql against independent formulas, and tables from CSV and Parquet files."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.stats import binomtest, chisquare, kstest, norm

from dyno.contracts.model import NotInstalled, UsageError
from dyno.suites.sql.data import tables as module
from dyno.suites.sql.data.generators import USAGE, parse
from dyno.suites.sql.data.random_values import LETTERS, WORDS, Random, key_of, philox
from dyno.suites.sql.data.tables import BLOCK, block, blocks, count, draw, read_tables

HERE = Path()
ROWS = 20_000
CUSTOMER = {
    "rows": 1_000,
    "id": "serial:500",
    "name": "words:2",
    "code": "text:8?90%",
    "born": "date:1950-01-01..2000-12-31",
}


def made(generator: str, rows: int = ROWS, seed: int = 1, **others: Any) -> list[Any]:
    """Returns all values of a column."""
    tables = read_tables({"customer": CUSTOMER, **others, "t": {"rows": rows, "x": generator}}, HERE)
    return [value for part in blocks(tables["t"], tables, seed) for value in part["x"]]


def fair(seen: Mapping[Any, int], weights: Mapping[Any, float]) -> bool:
    """Returns whether the counts are likely with these probabilities."""
    assert seen.keys() <= weights.keys()
    expected = np.array(list(weights.values())) * sum(seen.values()) / sum(weights.values())
    return chisquare([seen.get(value, 0) for value in weights], expected).pvalue > 0.001


# -- random numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0,) * 4, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 4, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            0x299F31D0A4093822,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_matches_published_test_vectors(counter: tuple[int, ...], key: int, expected: str) -> None:
    words = philox([np.array([number], np.uint64) for number in counter], key)
    assert " ".join(f"{int(word[0]):08x}" for word in words) == expected


@pytest.mark.parametrize("limit", [1, 3, 2**63 + 1, 3 * 2**62, 2**64 - 1, 2**64])
def test_numbers_below_a_limit_are_equally_likely(limit: int) -> None:
    numbers = Random(7, np.arange(ROWS)).draw_below(limit)
    thirds = Counter(int(number) * 3 // limit for number in numbers)
    assert max(thirds) < 3
    assert limit == 1 or fair(thirds, {0: 1, 1: 1, 2: 1})


# -- generators ---------------------------------------------------------------------------------------------------


def test_serial_counts_from_its_start() -> None:
    assert made("serial", 3) == [1, 2, 3]
    assert made("serial:-1", 3) == [-1, 0, 1]
    assert made("serial", BLOCK + 2)[-3:] == [BLOCK, BLOCK + 1, BLOCK + 2]


def test_uniform_numbers_are_evenly_distributed() -> None:
    assert fair(Counter(made("uniform:-2..3")), dict.fromkeys(range(-2, 4), 1))
    floats = made("uniform:1.5..4")
    assert {type(value) for value in floats} == {float}
    assert kstest(floats, "uniform", args=(1.5, 2.5)).pvalue > 0.001
    ends = -(2**63), 2**63 - 1
    whole = made(f"uniform:{ends[0]}..{ends[1]}")
    assert kstest([value / 2**63 for value in whole], "uniform", args=(-1, 2)).pvalue > 0.001
    assert made(f"uniform:{ends[1]}..{ends[1]}", 1) == [ends[1]]


@pytest.mark.parametrize("theta", ["0.5", "0.99", "1", "1.5", "20"])
def test_zipf_ranks_have_their_probabilities(theta: str) -> None:
    drawn = Counter(made(f"zipf:11..30:{theta}", 50_000))
    weights = 1 / np.arange(1, 21) ** float(theta)
    by_rank = [each for _, each in drawn.most_common()] + [0] * (20 - len(drawn))
    likely = weights / weights.sum() * 50_000 > 50
    assert set(drawn) <= set(range(11, 31))
    expected = weights[likely] / weights[likely].sum() * sum(np.array(by_rank)[likely])
    # Sorting by frequency changes the ranks of neighbours by chance, which makes the fit better, not worse.
    assert likely.sum() < 2 or chisquare(np.array(by_rank)[likely], expected).pvalue > 0.001
    assert [value for value, _ in drawn.most_common(3)] != [11, 12, 13], "spread"


def test_zipf_is_correct_over_a_huge_range() -> None:
    drawn = Counter(made("zipf:1..1_000_000_000_000:1.1", 30_000))
    share = drawn.most_common(1)[0][1] / 30_000
    # zeta(1.1) is 10.5844, of which 10 / 10 ** 1.2 is beyond the range.
    assert binomtest(round(share * 30_000), 30_000, 1 / (10.5844 - 10 * 1e-12**0.1)).pvalue > 0.001


def test_all_references_share_the_same_frequent_rows() -> None:
    tables = read_tables({"customer": CUSTOMER, "t": {"rows": ROWS, "x": "zipf:customer.id:1.2"}}, HERE)
    (rows,) = blocks(tables["t"], tables, 3)
    top = Counter(rows["x"]).most_common(1)[0][0]
    rng = np.random.default_rng(1)
    for reference in ("zipf:customer.id:0.9", "zipf:customer.id:2"):
        assert Counter(draw(reference, tables, 3)(rng, 5_000)).most_common(1)[0][0] == top
    assert Counter(draw("zipf:customer.id:2", tables, 4)(rng, 5_000)).most_common(1)[0][0] != top
    hot = Counter(draw("hot:customer.id:0.1%:90%", tables, 3)(rng, 1_000))
    hottest, draws = hot.most_common(1)[0]
    assert hottest == top
    assert draws == pytest.approx(900, abs=40)


def test_hot_rows_get_their_share() -> None:
    drawn = Counter(made("hot:customer.id:20%:80%", 50_000))
    by_frequency = [each for _, each in drawn.most_common()]
    assert binomtest(sum(by_frequency[:200]), 50_000, 0.8).pvalue > 0.001
    assert len(drawn) == 1_000, "the others are drawn too"
    assert Counter(made("hot:customer.id:100%:50%", 5_000)).keys() <= set(range(500, 1_500))


def test_latest_favours_the_last_rows() -> None:
    drawn = Counter(made("latest:customer.id:1.5"))
    weights = {1_499 - rank: (rank + 1) ** -1.5 for rank in range(1_000)}
    top = dict(list(weights.items())[:20])
    assert fair({value: drawn[value] for value in top}, top)


def test_normal_numbers_follow_their_distribution_and_rounding() -> None:
    assert kstest(made("normal:10:2"), norm(10, 2).cdf).pvalue > 0.001
    rounded = made("normal:0:3:2")
    assert rounded == [float(f"{value:.2f}") for value in rounded]
    whole = made("normal:100:15:0")
    assert {type(value) for value in whole} == {int}
    assert np.std(whole) == pytest.approx(15, rel=0.03)
    assert set(made("normal:5:0", 3)) == {5.0}


def test_choose_draws_values_by_weight() -> None:
    assert fair(Counter(made("choose:DE*5,FR*3,PL")), {"DE": 5, "FR": 3, "PL": 1})
    assert fair(Counter(made("choose: 1 * 0.5, -20")), {1: 0.5, -20: 1})
    assert set(made("choose:1,a:b")) == {"1", "a:b"}


def test_words_have_requested_count_and_are_equally_likely() -> None:
    texts = made("words:7")
    words = Counter(word for text in texts for word in text.split(" "))
    assert {len(text.split(" ")) for text in texts} == {7}
    assert fair(words, dict.fromkeys(WORDS, 1))
    assert len(set(made("words:2"))) > ROWS * 0.99
    assert fair(Counter(len(text.split(" ")) for text in made("words:2..4")), {2: 1, 3: 1, 4: 1})


def test_texts_and_bytes_have_uniform_lengths_and_contents() -> None:
    texts, sizes = made("text:20"), Counter(map(len, made("text:0..3")))
    assert {len(text) for text in texts} == {20}
    assert fair(Counter("".join(texts)), dict.fromkeys(LETTERS.decode(), 1))
    assert fair(sizes, dict.fromkeys(range(4), 1))
    octets = made("bytes:9")
    assert {(type(value), len(value)) for value in octets} == {(bytes, 9)}
    assert fair(Counter(b"".join(octets)), dict.fromkeys(range(256), 1))
    assert made("bytes:0", 2) == [b"", b""]
    assert made("text:0", 2) == ["", ""]


def test_uuids_are_of_version_4_and_differ() -> None:
    values = made("uuid")
    assert {(type(value), value.version, value.variant) for value in values} == {(UUID, 4, UUID(int=2**63).variant)}
    assert len(set(values)) == ROWS


def test_times_and_dates_include_both_ends() -> None:
    days = Counter(made("date:2024-02-28..2024-03-01"))
    assert fair(days, {date(2024, 2, 28): 1, date(2024, 2, 29): 1, date(2024, 3, 1): 1})
    assert {type(day) for day in days} == {date}
    low, high = datetime(2026, 1, 1), datetime(2026, 6, 30)
    seconds = [(value - low).total_seconds() for value in made("time:2026-01-01..2026-06-30")]
    assert kstest(seconds, "uniform", args=(0, (high - low).total_seconds())).pvalue > 0.001
    close = "time:1969-12-31T23:59:59.99Z..1970-01-01T01:00:00.000001+01:00"
    assert set(made("time:2026-01-01T12:00+02:00..2026-01-01T10:00", 3)) == {datetime(2026, 1, 1, 10)}
    values = made(close)
    assert (
        datetime(1969, 12, 31, 23, 59, 59, 990_000) <= min(values) <= max(values) <= datetime(1970, 1, 1, 0, 0, 0, 1)
    )
    ends = made("time:0001-01-01..9999-12-31T23:59:59.999999", 100)
    assert all(value.tzinfo is None for value in ends)


def test_decimals_are_exact() -> None:
    values = made("decimal:-0.05..0.05:2")
    assert fair(Counter(values), {Decimal(units).scaleb(-2): 1 for units in range(-5, 6)})
    assert {value.as_tuple().exponent for value in values} == {-2}
    assert made("decimal:9.000000000000000001..9.000000000000000001:18", 1) == [Decimal("9.000000000000000001")]
    assert {type(value) for value in made("decimal:1..9:0", 9)} == {Decimal}


def test_bool_has_its_share_and_null_is_none() -> None:
    assert fair(Counter(made("bool")), {True: 1, False: 1})
    assert fair(Counter(made("bool:5%")), {True: 5, False: 95})
    assert set(made("bool:0%")) == {False}
    assert set(made("bool:100%")) == {True}
    assert set(made("null")) == {None}


@pytest.mark.parametrize("generator", ["serial", "uniform:1..9", "words:2", "zipf:customer.id", "choose:a,b"])
def test_any_generator_has_a_share_of_nulls(generator: str) -> None:
    plain, some = made(generator), made(f"{generator}?20%")
    assert binomtest(some.count(None), ROWS, 0.2).pvalue > 0.001
    assert all(value in (None, other) for value, other in zip(some, plain, strict=True)), "the others stay"
    assert made(f"{generator}?0%") == plain
    assert set(made(f"{generator}?100%")) == {None}


def test_nulls_are_independent_of_the_values() -> None:
    present = [value for value in made("uniform:0.0..1.0?50%") if value is not None]
    assert kstest(present, "uniform").pvalue > 0.001


# -- any row can be made again -------------------------------------------------------------------------------------

EVERY = {
    "serial": "serial",
    "uniform": "uniform:1..1_000_000",
    "ratio": "uniform:0.0..1.0",
    "referring": "uniform:customer.name",
    "zipf": "zipf:customer.born:0.9",
    "zipf_range": "zipf:1..1_000_000",
    "hot": "hot:customer.id:20%:80%?5%",
    "latest": "latest:customer.code",
    "normal": "normal:0:1:2",
    "choose": "choose:a*2,b",
    "words": "words:1..7",
    "text": "text:1..30",
    "uuid": "uuid",
    "time": "time:2026-01-01..2026-06-30",
    "date": "date:2026-01-01..2026-06-30",
    "decimal": "decimal:1..500:2",
    "bool": "bool:30%",
    "bytes": "bytes:0..20",
    "null": "null",
    "parent": "uniform:every.serial",
}


def test_every_generator_is_tested() -> None:
    assert {parse(text).kind for text in EVERY.values()} == USAGE.keys()


def test_single_block_equals_same_rows_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = read_tables({"every": {"rows": 12_500, **EVERY}, "customer": CUSTOMER}, HERE)
    (whole,) = blocks(tables["every"], tables, 5)
    monkeypatch.setattr(module, "BLOCK", 1_000)
    alone = {number: block(tables["every"], tables, 5, number) for number in (12, 3, 0)}
    for number, rows in alone.items():
        assert rows == {name: values[1_000 * number : 1_000 * (number + 1)] for name, values in whole.items()}
    assert [len(part["serial"]) for part in blocks(tables["every"], tables, 5)] == [1_000] * 12 + [500]


def test_values_depend_only_on_seed_table_and_column() -> None:
    names = {"a": "uniform:1..1_000_000", "b": "uniform:1..1_000_000"}
    tables = read_tables(
        {"t": {"rows": 100, **names}, "u": {"rows": 100, **names}, "w": {"rows": 50, "a": names["a"]}}, HERE
    )
    columns = [
        block(tables[table], tables, seed, 0)[column]
        for table, seed, column in (("t", 1, "a"), ("t", 2, "a"), ("t", 1, "b"), ("u", 1, "a"))
    ]
    for at, values in enumerate(columns):
        assert all(len(set(values) & set(other)) < 5 for other in columns[at + 1 :])
    fewer = read_tables({"t": {"rows": 50, "b": names["b"]}}, HERE)
    assert block(fewer["t"], fewer, 1, 0)["b"] == columns[2][:50]


def test_values_are_those_of_earlier_versions() -> None:
    """Runs are compared by their seed, so a seed must give the same rows for ever."""
    tables = read_tables({"customer": CUSTOMER, "every": {"rows": 3, **EVERY}}, HERE)
    rows = block(tables["every"], tables, 42, 0)
    expected = "f7d265b135a53c9d"
    assert f"{key_of(str(rows)):016x}" == expected


# -- references ---------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A directory with a table in two formats."""
    (tmp_path / "product.csv").write_text("sku,price\nA,1\nB,2\n,3\nC,\n")
    parquet.write_table(
        pa.table({"sku": ["A", "B", None, "C"], "price": [1, 2, 3, None]}), tmp_path / "product.parquet"
    )
    return tmp_path


@pytest.mark.parametrize(
    "column", ["customer.id", "customer.name", "customer.code", "customer.born", "p.sku", "q.price"]
)
@pytest.mark.parametrize("kind", ["uniform:{}", "zipf:{}", "zipf:{}:2", "hot:{}:10%:90%", "latest:{}:0.5"])
def test_references_exist_in_the_other_table(own: Path, column: str, kind: str) -> None:
    declared = {
        "t": {"rows": 1_000, "x": kind.format(column)},
        "customer": CUSTOMER,
        "p": "product.csv",
        "q": "product.parquet",
    }
    tables = read_tables(declared, own)
    (rows,) = blocks(tables["t"], tables, 9)
    table, _, name = column.partition(".")
    existing = {value for part in blocks(tables[table], tables, 9) for value in part[name]} - {None}
    assert set(rows["x"]) <= existing
    assert len(set(rows["x"])) > 1
    drawn = draw(kind.format(column), tables, 9)(np.random.default_rng(2), 200)
    assert len(drawn) == 200
    assert set(drawn) <= existing


def test_reference_to_all_null_column_is_refused() -> None:
    tables = read_tables({"t": {"rows": 1, "x": "words:1?50%"}}, HERE)
    seeds = {block(tables["t"], tables, seed, 0)["x"][0] is None: seed for seed in range(20)}
    assert len(draw("t.x", tables, seeds[False])(np.random.default_rng(1), 5)) == 5
    with pytest.raises(UsageError, match=r"t\.x has no values"):
        draw("t.x", tables, seeds[True])(np.random.default_rng(1), 5)


def test_uniform_reference_draws_all_rows_equally_often() -> None:
    assert fair(Counter(made("uniform:customer.id", 50_000)), dict.fromkeys(range(500, 1_500), 1))


def test_references_may_refer_to_other_references() -> None:
    orders = {"rows": 500, "id": "serial", "customer_id": "zipf:customer.id", "note": "words:1?80%"}
    tables = read_tables(
        {
            "line": {"rows": 300, "c": "uniform:orders.customer_id", "n": "uniform:orders.note"},
            "customer": CUSTOMER,
            "orders": orders,
        },
        HERE,
    )
    assert list(tables) == ["customer", "orders", "line"], "references first"
    rows, of = block(tables["line"], tables, 1, 0), block(tables["orders"], tables, 1, 0)
    assert set(rows["c"]) <= set(of["customer_id"])
    assert set(rows["n"]) <= set(of["note"]) - {None}


def test_parameters_are_drawn_from_columns_and_generators() -> None:
    tables = read_tables({"customer": CUSTOMER}, HERE)
    rng = np.random.default_rng(3)
    assert fair(Counter(draw("customer.id", tables, 1)(rng, ROWS)), dict.fromkeys(range(500, 1_500), 1))
    names = draw("customer.name", tables, 1)(rng, 5)
    assert set(names) <= set(block(tables["customer"], tables, 1, 0)["name"])
    assert names != draw("customer.name", tables, 1)(rng, 5), "the next five differ"
    assert fair(Counter(draw("uniform:1..6", tables, 1)(rng, ROWS)), dict.fromkeys(range(1, 7), 1))
    again = [draw("words:1", tables, 1)(np.random.default_rng(4), 9) for _ in range(2)]
    assert again[0] == again[1]


# -- refusals -----------------------------------------------------------------------------------------------------

BAD = {
    "": "generator",
    "zopf:1..3": "zipf",
    "from:SELECT id FROM customer": "TABLE.COLUMN",
    "serial:": "serial:START",
    "serial:1:2": "too many",
    "serial:x": "whole number",
    "uniform": "LOW..HIGH",
    "uniform:5": "TABLE.COLUMN",
    "uniform:5..1": "ends before",
    "uniform:1...5": "number",
    f"uniform:1..{2**63}": "64 bits",
    "uniform:custmer.id": "did you mean customer",
    "uniform:customer.idd": "did you mean id",
    "uniform:empty.id": "no rows",
    "uniform:void.x": "over 90% NULL",
    "uniform:void.y": "over 90% NULL",
    "zipf:1..5:0": "theta",
    "zipf:1..5:-1": "theta",
    "zipf:1..5:nan": "number",
    "zipf:0..9007199254740992": "2 ** 53",
    "zipf:1.5..2": "whole number",
    "hot:customer.id": "too few",
    "hot:customer.id:20:80": "percentage",
    "hot:customer.id:0%:80%": "0% of the rows",
    "hot:customer.id:20%:101%": "percentage",
    "latest:1..5": "TABLE.COLUMN",
    "normal:1": "too few",
    "normal:1:-1": "negative",
    "normal:1:1:16": "15 digits",
    "normal:1:1:1.5": "whole number",
    "choose": "empty",
    "choose:a,,b": "empty",
    "choose:a*0": "weight",
    "choose:a*x": "number",
    "words:0": "1 to",
    "words:3..1": "ends before",
    "words:1001": "1 to",
    "text:10001": "10,000",
    "uuid:4": "too many",
    "time:2026-01-01": "range",
    "time:2026-13-01..2026-14-01": "month",
    "time:2026-01-01..2025-01-01": "ends before",
    "time:0001-01-01T00:00+14:00..2026-01-01": "years",
    "date:2026-01-01..2026-01-02T10:00": "date",
    "date:2026-02-30..2026-03-01": "day",
    "decimal:1..2": "too few",
    "decimal:1..2:19": "18 digits",
    "decimal:1.005..2:2": "more than 2 digits",
    "decimal:0..9223372036854775807:1": "64 bits",
    "bool:0.5": "percentage",
    "bytes:-1": "0 to",
    "null:1": "too many",
    "serial?101%": "percentage",
    "serial?x%": "percentage",
    "\x1b[2J": "generator",
    "x" * 5_000: "generator",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_generator_is_refused_with_table_and_column(text: str) -> None:
    others = {
        "customer": CUSTOMER,
        "empty": {"rows": 0, "id": "serial"},
        "void": {"rows": 1, "x": "null", "y": "serial?90.1%"},
    }
    with pytest.raises(UsageError) as error:
        read_tables({**others, "orders": {"rows": 3, "amount": text}}, HERE)
    message = str(error.value)
    assert message.startswith("sql.tables.orders.amount: ")
    assert BAD[text] in message
    assert "expected" in message or "did you mean" in message or "there are" in message or "TABLE.COLUMN" in message
    assert message.isprintable()
    assert len(message) < 600
    parameter = text.replace("serial?", "uuid?")
    with pytest.raises(UsageError, match=r"^[ -~]+$"):
        draw(parameter, read_tables(others, HERE), 1)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ([1], "table of tables"),
        ({"t": 5}, "sql.tables.t: expected the name"),
        ({"t": "rows.txt"}, ".csv or .parquet"),
        ({"t": "none.csv"}, "No such file"),
        ({"t": {"rows": 5}}, "sql.tables.t: has no columns"),
        ({"t": {"id": "serial"}}, "sql.tables.t: has no rows"),
        ({"t": {"rows": -1, "id": "serial"}}, "sql.tables.t.rows"),
        ({"t": {"rows": True, "id": "serial"}}, "sql.tables.t.rows"),
        ({"t": {"rows": 1.5, "id": "serial"}}, "sql.tables.t.rows"),
        ({"t": {"rows": 10**13, "id": "serial"}}, "10 ** 12"),
        ({"t": {"rows": 10**5_000, "id": "serial"}}, "sql.tables.t.rows"),
        ({"t": {"rows": 5, "id": 7}}, "sql.tables.t.id: expected a generator"),
        ({"t": {"rows": 5, "unit price": "serial"}}, "unit price"),
        ({"t": {"rows": 5, "id": "serial", "ID": "serial"}}, "id and ID"),
        ({"1t": {"rows": 5, "id": "serial"}}, "1t"),
        ({"t": {"rows": 5, "a": "uniform:t.b", "b": "uniform:t.a"}}, "t.a -> t.b -> t.a"),
        ({"t": {"rows": 5, "a": "uniform:t.a"}}, "circle"),
        (
            {
                "t": {"rows": 5, "id": "serial", "a": "uniform:u.id"},
                "u": {"rows": 5, "id": "serial", "b": "uniform:t.id"},
            },
            "t -> u -> t",
        ),
        ({"t": {"rows": 5, "c0": "serial", **{f"c{n}": f"uniform:t.c{n - 1}" for n in range(1, 30)}}}, "over 20"),
        ({f"t{n}": {"rows": 1, "id": "serial"} for n in range(1_001)}, "at most 1,000"),
    ],
)
def test_bad_tables_are_refused(declared: Any, words: str) -> None:
    with pytest.raises(UsageError) as error:
        read_tables(declared, HERE)
    assert words in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("text", ["serial", "orders", "orders.", "nope.id", "customer.nope", ""])
def test_a_bad_parameter_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        draw(text, read_tables({"customer": CUSTOMER}, HERE), 1)


# -- files --------------------------------------------------------------------------------------------------------


def test_csv_column_types_are_inferred(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(
        b"\xef\xbb\xbfi,f,d,t,zip,huge,mixed,none,quoted\r\n"
        b'1,1,2026-01-31,2026-01-31,01234,9223372036854775808,1,,"a,""b""\nc"\r\n'
        b"-5,1e3,2024-02-29,2026-01-31 10:00:00.5,99999,1,x,,\r\n"
        b"\r\n"
        b",,,2026-01-31T12:00:00+02:00,,,,,\xc3\xa9\r\n"
    )
    table = read_tables({"t": "t.csv"}, tmp_path)["t"]
    assert (table.rows, count(table), [column.name for column in table.columns][:2]) == (None, 3, ["i", "f"])
    (rows,) = blocks(table, {"t": table}, 1)
    assert rows == {
        "i": [1, -5, None],
        "f": [1.0, 1000.0, None],
        "d": [date(2026, 1, 31), date(2024, 2, 29), None],
        "t": [datetime(2026, 1, 31), datetime(2026, 1, 31, 10, 0, 0, 500_000), datetime(2026, 1, 31, 10)],
        "zip": ["01234", "99999", None],
        "huge": [9223372036854775808.0, 1.0, None],
        "mixed": ["1", "x", None],
        "none": [None, None, None],
        "quoted": ['a,"b"\nc', None, "é"],
    }
    assert {type(value) for value in rows["f"]} == {float, type(None)}
    (tmp_path / "t.csv").write_text("i\n7\n")
    assert count(table) == 1, "a changed file is read again"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no columns"),
        (b"a,a\n", "twice"),
        (b"a,\n", "column ''"),
        (b"a,b\n1\n", "row 1 has 1 fields"),
        (b'a\n"x\n', "not CSV"),
        (b"a\n\xff\n", "not UTF-8"),
    ],
)
def test_damaged_csv_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(UsageError, match=words) as error:
        count(read_tables({"t": "t.csv"}, tmp_path)["t"])
    assert str(error.value).isprintable()


def test_parquet_columns_become_python_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = int(datetime(2026, 1, 31, 10, tzinfo=timezone.utc).timestamp())
    columns = {
        "b": pa.array([True, None, False]),
        "i": pa.array([1, None, -3], pa.int16()),
        "u": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "f": pa.array([1.5, None, 2], pa.float32()),
        "m": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(9, 2)),
        "s": pa.array(["é", None, ""]),
        "e": pa.array(["x", None, "x"]).dictionary_encode(),
        "y": pa.array([b"\0", None, b""]),
        "d": pa.array([date(2026, 1, 31), None, date(1, 1, 1)]),
        "t": pa.array([seconds * 10**9 + 1_999, None, -86_400 * 10**9], pa.timestamp("ns", "Europe/Berlin")),
        "n": pa.nulls(3),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_tables({"t": "t.parquet"}, tmp_path)["t"]
    monkeypatch.setattr(module, "BLOCK", 2)
    parts = list(blocks(table, {"t": table}, 1))
    assert [len(part["i"]) for part in parts] == [2, 1]
    assert {name: parts[0][name] + parts[1][name] for name in columns} == {
        **{name: column.to_pylist() for name, column in columns.items() if name != "t"},
        "t": [datetime(2026, 1, 31, 10, 0, 0, 1), None, datetime(1969, 12, 31)],
    }
    assert type(parts[0]["t"][0]) is datetime


def test_damaged_and_nested_parquet_files_are_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1], "many": [[1]]}), tmp_path / "nested.parquet")
    whole = (tmp_path / "nested.parquet").read_bytes()
    (tmp_path / "damaged.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "none.parquet").mkdir()
    for name, words in (("nested", "column many has the type list"), ("damaged", "Parquet"), ("none", "directory")):
        with pytest.raises(UsageError, match=words) as error:
            read_tables({"t": f"{name}.parquet"}, tmp_path)
        assert str(error.value).isprintable()


def test_missing_pyarrow_is_reported_with_a_remedy(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert read_tables({"p": "product.csv"}, own)
    with pytest.raises(NotInstalled, match=r"pyarrow.*\[parquet\]"):
        read_tables({"q": "product.parquet"}, own)


def test_file_column_of_only_nulls_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a,b\n1,\n")
    tables = read_tables({"p": "p.csv"}, tmp_path)
    with pytest.raises(UsageError, match=r"p\.b has no values"):
        draw("p.b", tables, 1)(np.random.default_rng(1), 1)
