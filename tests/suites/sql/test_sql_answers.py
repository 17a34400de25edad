"""Tests how answers of the suite `sql` are compared: what is equal whatever the engine's types, what is not, how
trials form groups, and which groups are void.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from dyno.contracts.cell import Cell
from dyno.stats.agreement import agree as trials_agree
from dyno.stats.agreement import find_disagreements
from dyno.suites.sql.checks.answers import format_rows, normalize_rows, rows_agree
from dyno.suites.sql.checks.book import FRACTIONS, AnswerRecord, Book, chain
from dyno.suites.sql.digests import FAILED, Digest, agree, digests

TOLERANCE = 1e-6
NOON = datetime(2026, 5, 1, 12, 0, 0, 250_000)
UUID_TEXT = "8f14e45f-ceea-467f-a8d7-4c1f9d1d2c11"


def digest(answer: Any, ordered: bool, tolerance: float, columns: tuple[int, ...] | None = None) -> Digest:
    (one,) = digests([answer], ordered, tolerance, columns)
    return one


def same(one: Any, other: Any, ordered: bool = False) -> bool:
    """Returns whether two values, or two answers, are equal by their digests and by their rows."""
    left, right = (each if type(each) in (list, tuple) else [(each,)] for each in (one, other))
    by_digest = agree(digest(left, ordered, TOLERANCE), digest(right, ordered, TOLERANCE))
    by_rows = rows_agree(format_rows(left, TOLERANCE), format_rows(right, TOLERANCE), ordered, TOLERANCE)
    assert by_digest == by_rows
    return by_digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (5, Decimal("5.00")),
        (5, 5.0),
        (5, 4.9999999999),
        (2.5, Decimal("2.5")),
        (1 / 3, Decimal("0.3333333333333333")),
        (0.1 + 0.2, 0.3),
        (12_345_678_901, 12_345_678_900.99998),
        (NOON, "2026-05-01 12:00:00.25"),
        (NOON, "2026-05-01T12:00:00.250000Z"),
        (NOON, NOON.replace(tzinfo=timezone.utc).astimezone(timezone(timedelta(hours=2)))),
        (date(2026, 5, 1), "2026-05-01"),
        (UUID(UUID_TEXT), UUID_TEXT),
        (b"\xff\0", memoryview(b"\xff\0")),
        ("übergröße", "übergröße".encode()),
        (1e16 + 2, 1e16 + 4),
        (None, None),
        ([1, 2.5], (1.0, Decimal("2.5"))),
    ],
)
def test_equal_values_of_different_types_agree(one: Any, other: Any) -> None:
    assert same([(one,)], [(other,)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (5, 5.0001),
        (2.5, 2.5001),
        (1, 2),
        (2**53, 2**53 + 1),
        ("a", "A"),
        ("a", "a "),
        ("1", 1),
        (None, 0),
        (None, ""),
        (b"ab", "Ab"),
        (b"\xff", "ÿ"),
        (10**16 + 2, 10**16 + 4),
        (NOON, NOON + timedelta(microseconds=1)),
        (math.inf, -math.inf),
        (math.nan, None),
    ],
)
def test_different_values_disagree(one: Any, other: Any) -> None:
    assert not same([(one,)], [(other,)])


def test_row_order_matters_only_for_ordered_answers() -> None:
    rows: list[tuple[Any, ...]] = [(number, f"n{number % 3}", number / 7) for number in range(50)]
    shuffled = Random(1).sample(rows, len(rows))
    assert same(rows, shuffled)
    assert not same(rows, shuffled, ordered=True)
    assert not same(rows, rows[:-1])
    assert not same(rows, [*rows, rows[0]])
    assert not same(rows, [*rows[:-1], (49, "n1", 49 / 7 + 1e-4)])
    assert not same(([(1,)], 1), ([(1,)], 2)), "the number of changed rows"


def test_answers_that_agree_are_displayed_alike() -> None:
    one, other = ([[[2, "b", 0.1 + 0.2], [1, None, 0.5]]], [[[1, None, 0.5], [2, "b", 0.3]]])
    assert normalize_rows(one, False) == normalize_rows(other, False)
    assert normalize_rows(one, True) != normalize_rows(other, True)


def test_only_the_named_columns_are_compared() -> None:
    one, other = [(1, "x"), (2, "y")], [(1, "z"), (2, "w")]
    assert digest(one, False, TOLERANCE, (0,)) == digest(other, False, TOLERANCE, (0,))
    assert digest(one, False, TOLERANCE, (1,)) != digest(other, False, TOLERANCE, (1,))
    assert digest(one, False, TOLERANCE, ()) == digest([(9, 9), (8, 8)], False, TOLERANCE, ())


def record(home: Path, answers: dict[int, Any], client: int = 0) -> AnswerRecord:
    """Returns a client's record of answers by the operation's number; None: it failed."""
    made = AnswerRecord(home, client)
    given = [[] if answer is None else answer for answer in answers.values()]
    for (number, answer), known in zip(answers.items(), digests(given, False, TOLERANCE), strict=True):
        rows = None if answer is None else format_rows(answer, TOLERANCE)
        made.add(number, [FAILED if answer is None else known], [rows].__getitem__)
    return made


def enter(book: Book, home: Path, engine: str, answers: dict[int, Any]) -> dict[str, Any]:
    name = engine.partition(":")[0]
    return dict(
        book.enter([record(home / engine, answers)], name, engine, lambda client, number: f"operation {number}")
    )


def test_book_groups_trials_and_names_first_difference(tmp_path: Path) -> None:
    book = Book(tmp_path / "book", 1, False, TOLERANCE)
    right: dict[int, Any] = {number: [(number, "a")] for number in range(3_000)}
    first = enter(book, tmp_path, "sqlite", right)
    assert first["answers"] == 3_000 and first["answers_group"] == 0 and "answers_differ" not in first
    # It answered fewer questions, failed at one and was right in all others.
    assert enter(book, tmp_path, "duckdb", {**dict(list(right.items())[:500]), 7: None})["answers_group"] == 0
    wrong = enter(book, tmp_path, "mariadb", {**right, 17: [(18, "a")], 2_999: [(0, "a")]})
    assert wrong["answers_group"] == 1
    assert all(word in wrong["answers_differ"] for word in ("operation 17", "[18, 'a']", "[17, 'a']", "sqlite"))
    late = enter(book, tmp_path, "clickhouse", {**right, 2_999: [(0, "b")]})
    assert late["answers_group"] == 2 and "operation 2999" in late["answers_differ"]
    assert enter(book, tmp_path, "postgresql", right)["answers_chain"] == first["answers_chain"]


def test_difference_within_an_engine_names_trial_or_row(tmp_path: Path) -> None:
    book = Book(tmp_path / "book", 1, False, TOLERANCE)
    right: dict[int, Any] = {number: [(number,)] for number in range(3_000)}
    enter(book, tmp_path, "sqlite", right)
    # Of operation 1, the rows are kept; of operation 2,999, only a digest.
    for number in (1, 2_999):
        again = enter(book, tmp_path / str(number), "sqlite", {**right, number: [(0,)]})["answers_differ"]
        assert "in another trial" in again and again.count("sqlite") == 1
    other = enter(book, tmp_path, "sqlite:set.x=1", {**right, 2_998: [(0,)]})["answers_differ"]
    assert other == "operation 2998: sqlite answered otherwise than another row of sqlite"
    # The text names the engine, because others' rows have it too if there is a tie.
    assert "duckdb answered" in enter(book, tmp_path, "duckdb", {**right, 2_998: [(1,)]})["answers_differ"]


def test_lost_fractions_of_seconds_are_named(tmp_path: Path) -> None:
    book = Book(tmp_path / "book", 1, False, TOLERANCE)
    moment = datetime(2026, 1, 1, 10, 0, 0, 250_000)
    enter(book, tmp_path, "sqlite", {0: [(1, moment), (2, moment)]})
    lossy = enter(book, tmp_path, "mariadb", {0: [(2, moment.replace(microsecond=0)), (3, None)]})
    assert f"times of mariadb have no fractions of a second: {FRACTIONS}" in lossy["answers_differ"]
    other = enter(book, tmp_path, "duckdb", {0: [(7, moment)]})
    assert "fractions" not in other["answers_differ"]


def test_book_grows_by_answers_of_longer_trials(tmp_path: Path) -> None:
    book = Book(tmp_path / "book", 1, False, TOLERANCE)
    right: dict[int, Any] = {number: [(number,)] for number in range(100)}
    enter(book, tmp_path, "short", dict(list(right.items())[:10]))
    enter(book, tmp_path, "long", right)
    assert enter(book, tmp_path, "wrong", {**right, 50: [(0,)]})["answers_group"] == 1


def test_answer_chains_agree_over_the_common_prefix(tmp_path: Path) -> None:
    def links(name: str, count: int) -> dict[str, str]:
        found = chain([record(tmp_path / name, {number: [(number,)] for number in range(count)})])
        return dict(link.split(":") for link in found.split())

    longer = links("longer", 1_500)
    assert list(longer) == ["100", "1000", "1500"]
    assert links("shorter", 1_000) == {key: longer[key] for key in ("100", "1000")}
    of_one, of_other = (
        {"answers_book": name, "answers_chain": text} for name, text in (("x", "100:aa 1000:bb"), ("y", "100:aa"))
    )
    assert trials_agree(of_one, of_other) and trials_agree(of_other, of_one)
    assert not trials_agree(of_one, {"answers_book": "z", "answers_chain": "100:cc"})


def voided(groups: dict[str, list[int]], reference: str = "") -> dict[str, Any]:
    """Returns why each engine is void, given the groups of its trials; None if it is valid."""
    cells = [Cell("sql", name, {}, None, {"clients": 1}) for name in groups]
    attempts = [
        SimpleNamespace(
            cell=at,
            samples=[
                SimpleNamespace(
                    phase="p",
                    void=None,
                    facts={
                        "answers_book": "b",
                        "answers_group": group,
                        **({"answers_differ": f"{name} said so"} if group else {}),
                    },
                )
            ],
        )
        for at, (name, of) in enumerate(groups.items())
        for group in of
    ]
    reasons = find_disagreements(cells, attempts, reference)  # type: ignore[arg-type]
    by_cell = {each.cell: reasons[id(each.samples[0])] for each in attempts if id(each.samples[0]) in reasons}
    return {name: by_cell.get(at) for at, name in enumerate(groups)}


def test_the_largest_group_is_valid() -> None:
    found = voided({"sqlite": [0, 0], "duckdb": [0, 0], "mariadb": [1, 1]})
    assert found["sqlite"] is found["duckdb"] is None
    assert "duckdb, sqlite" in found["mariadb"] and "mariadb said so" in found["mariadb"]
    assert set(voided({"sqlite": [0, 0], "duckdb": [0, 0]}).values()) == {None}
    assert voided({"sqlite": [1, 1], "duckdb": [0, 0], "mariadb": [1, 1]})["duckdb"] is not None


def test_tied_groups_are_void_without_a_reference() -> None:
    tie = {"sqlite": [0, 0], "duckdb": [1, 1]}
    assert all("reference" in why for why in voided(tie).values())
    assert voided(tie, "duckdb") == {"sqlite": voided(tie, "duckdb")["sqlite"], "duckdb": None}
    assert "duckdb" in str(voided(tie, "duckdb")["sqlite"])


def test_differing_trials_of_one_engine_are_nondeterministic() -> None:
    found = voided({"sqlite": [0, 0], "duckdb": [0, 1], "mariadb": [0, 0]})
    assert "not deterministic" in found["duckdb"] and found["sqlite"] is None
