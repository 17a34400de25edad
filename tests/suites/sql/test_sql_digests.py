"""Draws answers of every type and changes of them, and checks that wrong answers are found and right ones are not
reported, as a trial records them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dyno import registry
from dyno.contracts.suite import Job
from dyno.suites.sql.checks.book import AnswerRecord, Book, difference
from dyno.suites.sql.definition import parse_definition
from dyno.suites.sql.digests import agree, digests
from dyno.suites.sql.grids import COUNT, FLOOR, LIMITS, grids
from dyno.suites.sql.language.operations import Kinds
from dyno.suites.sql.language.script import BATCH
from dyno.suites.sql.workload import Recording, SqlWorkload

TOLERANCE = 1e-6
BATCHES, SLICE = 20, 60
CHANGES = 25
Row = tuple[Any, ...]
Answer = list[Row]
NOON = datetime(2026, 5, 1, 12)


def row(random: Random, number: int) -> Row:
    """Returns a row with a column for each type, and some NULLs."""
    real = random.choice((random.uniform(-9, 9), random.lognormvariate(5, 5), random.randint(0, 99) / 4, 0.0))
    values = (
        number,
        random.randint(-(2**40), 2**40),
        real,
        Decimal(random.randint(-(10**7), 10**7)).scaleb(-2),
        f"name {random.randint(0, 99)}",
        NOON + timedelta(microseconds=random.randint(0, 10**12)),
        random.randbytes(6),
    )
    return tuple(None if at and random.random() < 0.05 else value for at, value in enumerate(values))


def answers(seed: int, count: int) -> list[Answer]:
    random = Random(seed)
    return [[row(random, number) for number in range(random.randint(2, 6))] for _ in range(count)]


class Trial:
    """Records answers as a client of a trial does."""

    def __init__(self, home: Path, ordered: bool = False) -> None:
        script = {"script": {"": "SELECT 1"}, "ordered": ordered}
        definition = parse_definition({"schema": {"": ""}, "transactions": {"t": script}})
        spec = registry.engine("sqlite").reduce_to_port("sql")
        job = Job(spec, home, None, spec.resolve({}), {"operations": 0}, seed=1, clients=1)
        phase: Any = SimpleNamespace(name="t", writes=False)
        workload = SqlWorkload(job, definition)
        self.recording = Recording(workload, phase, Kinds(definition, job, "t", 0, {}), 0)
        self.record = AnswerRecord(workload.answers_home(phase), 0)

    def check(self, batch: int, answers: list[Any]) -> None:
        self.recording.check(batch, [0] * len(answers), [()] * len(answers), answers)


# -- wrong answers ----------------------------------------------------------------------------------------------


def wrong_value(random: Random, value: Any) -> Any:
    """Returns a value that differs by more than the tolerance."""
    if value is None:
        return random.choice((0, "", "NULL"))
    if random.random() < 0.1:
        return None
    if type(value) is float:
        share = random.choice((1.000_001, 1.01, 2.0, 1e3)) * random.choice((1, -1))
        return value + share * TOLERANCE * 1.000_01 * max(abs(value), FLOOR) * (1 + TOLERANCE)
    if type(value) is Decimal:
        return value + random.choice((Decimal("0.01"), Decimal("-0.01"), Decimal(1)))
    if type(value) is int:
        return value + random.choice((1, -1, 2**20))
    if type(value) is datetime:
        return value + timedelta(microseconds=random.choice((1, -1, 10**6)))
    if random.random() < 0.5:
        return value[:-1]
    return value + (b"\0" if type(value) is bytes else " ")


def one_value(random: Random, rows: Answer) -> None:
    at, column = random.randrange(len(rows)), random.randrange(len(rows[0]))
    rows[at] = (*rows[at][:column], wrong_value(random, rows[at][column]), *rows[at][column + 1 :])


def exchanged_values(random: Random, rows: Answer) -> None:
    one, other = random.sample(range(len(rows)), 2)
    # The column is not the only one that differs between the rows.
    column = random.choice([0, 1])
    left, right = list(rows[one]), list(rows[other])
    left[column], right[column] = right[column], left[column]
    rows[one], rows[other] = tuple(left), tuple(right)


def exchanged_columns(random: Random, rows: Answer) -> None:
    at = random.randrange(len(rows))
    rows[at] = (rows[at][1], rows[at][0], *rows[at][2:])


def exchanged_rows(random: Random, rows: Answer) -> None:
    one, other = random.sample(range(len(rows)), 2)
    rows[one], rows[other] = rows[other], rows[one]


def lost_row(random: Random, rows: Answer) -> None:
    del rows[random.randrange(len(rows))]


def doubled_row(random: Random, rows: Answer) -> None:
    rows.append(random.choice(rows))


def row_in_place_of_another(random: Random, rows: Answer) -> None:
    one, other = random.sample(range(len(rows)), 2)
    rows[one] = rows[other]


WRONG = (one_value, exchanged_values, exchanged_columns, lost_row, doubled_row, row_in_place_of_another)


@pytest.mark.claim("One wrong value in 100,000 answers of the user's own SQL is found, however many were right")
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_each_wrong_answer_is_found(ordered: bool, tmp_path: Path) -> None:
    random = Random(7)
    right = Trial(tmp_path / "right", ordered)
    for batch in range(BATCHES):
        right.check(batch, answers(batch, SLICE))
    drawn = Counter[str]()
    found = Counter[str]()
    for number, change in enumerate((*WRONG, *((exchanged_rows,) if ordered else ()))):
        for attempt in range(CHANGES):
            # After the first 1,000 answers, which are compared value by value.
            batch = random.randrange(1, BATCHES)
            changed = answers(batch, SLICE)
            at = random.randrange(SLICE)
            before = list(changed[at])
            change(random, changed[at])
            if changed[at] == before:
                continue
            trial = Trial(tmp_path / f"{number}-{attempt}", ordered)
            trial.check(batch, changed)
            drawn[change.__name__] += 1
            found[change.__name__] += difference(trial.record, right.record, ordered, TOLERANCE) == batch * BATCH + at
    for name, count in drawn.items():
        print(f"sql, {'ordered' if ordered else 'any order'}: {name}: {count} changes drawn, {found[name]} found")
    assert found == drawn


def test_last_of_many_answers_is_compared(tmp_path: Path) -> None:
    count = 100
    right, wrong = Trial(tmp_path / "right"), Trial(tmp_path / "wrong")
    for batch in range(count):
        # The same numbers in each batch, since drawing them takes longer than the comparison.
        rows: list[Answer] = [[(number, number / 7, "a"), (number + 1, number / 3, "b")] for number in range(BATCH)]
        right.check(batch, rows)
    (one, *others), (other, *further) = rows[-1]
    rows[-1] = [(other, *others), (one, *further)]
    wrong.check(count - 1, rows)
    book = Book(tmp_path / "book", 1, False, TOLERANCE)
    assert book.enter([right.record], "one", "one", lambda *_: "")["answers"] == count * BATCH
    facts = book.enter([wrong.record], "other", "other", lambda client, number: f"operation {number + 1:,}")
    assert "operation 100,000" in str(facts["answers_differ"]) and facts["answers_group"] == 1


@pytest.mark.parametrize(("count", "wrong"), [(1_000, 1.0), (100, 0.09)])
def test_one_wrong_row_of_many_is_found(count: int, wrong: float) -> None:
    random = Random(9)
    numbers = [random.uniform(1, 0.9 * wrong / TOLERANCE) for _ in range(count)]
    for at in random.sample(range(count), 20):
        changed = [number + wrong if place == at else number for place, number in enumerate(numbers)]
        for kind in (float, lambda number: Decimal(f"{number:.2f}")):
            one, other = ([(place, kind(each)) for place, each in enumerate(part)] for part in (numbers, changed))
            assert not agree(*digests([one, other], False, TOLERANCE))


# -- answers that agree ---------------------------------------------------------------------------------------------


def last_digits(random: Random, value: Any) -> Any:
    if type(value) is float:
        noise = random.choice((0.0, 1e-15, 1e-14, 1e-12)) * random.uniform(-1, 1)
        return random.choice((value * (1 + noise), math.nextafter(value, math.inf), value + 1e-13))
    return value


def other_type(random: Random, value: Any) -> Any:
    """Returns the value as another engine's client gives it."""
    if type(value) is int:
        return random.choice((Decimal(value), Decimal(f"{value}.00"), float(value) if abs(value) < 2**53 else value))
    if type(value) is Decimal:
        return random.choice((Decimal(f"{value}00"), value.normalize(), float(value)))
    if type(value) is float:
        return random.choice((Decimal(value), Decimal(repr(value)), np.float64(value)))
    if type(value) is datetime:
        return random.choice((str(value), value.isoformat() + "Z"))
    if type(value) is bytes:
        return memoryview(value)
    return value.encode() if type(value) is str else value


@pytest.mark.parametrize("change", [last_digits, other_type], ids=lambda change: change.__name__)
def test_equivalent_answers_show_no_difference(change: Callable[[Random, Any], Any], tmp_path: Path) -> None:
    random = Random(8)
    one, other = Trial(tmp_path / "one"), Trial(tmp_path / "other")
    for batch in range(1, 4):
        right = answers(batch, BATCH)
        one.check(batch, right)
        changed = [[tuple(change(random, value) for value in row) for row in rows] for rows in right]
        other.check(batch, [random.sample(rows, len(rows)) for rows in changed])
    assert difference(one.record, other.record, False, TOLERANCE) is None


def test_single_floats_and_their_shortest_decimals_agree() -> None:
    """A column REAL is a double of a 32-bit float in one client, and its shortest decimal in another."""
    singles = np.random.default_rng(1).lognormal(0, 6, 20_000).astype(np.float32)
    # Larger ones are whole numbers.
    singles = singles[(singles > FLOOR) & (singles < 2**23)]
    shortest = [float(str(single)) for single in singles]
    pairs = zip(all_digests(singles.astype(float).tolist()), all_digests(shortest), strict=True)
    assert sum(not agree(one, other) for one, other in pairs) == 0


def all_digests(values: list[Any]) -> list[Any]:
    return digests([[(value,)] for value in values], False, TOLERANCE)


def edges() -> list[float]:
    """Returns numbers just below which a grid has an edge: of cells, of whole numbers, of sizes."""
    rules = grids(TOLERANCE)

    def codes(grid: int, number: float) -> tuple[bool, int]:
        whole, code = list(rules.codes(np.array([number])))[grid]
        return bool(whole[0]), int(code[0])

    found = [0.0, FLOOR, *LIMITS, *(2.0**power for power in range(-12, 60))]
    random = Random(3)
    starts = [random.lognormvariate(3, 6) for _ in range(150)]
    starts += [float(whole) for whole in (0, 1, 2, 3, 7, 1_000, 999_999, 10**6, 10**7 + 1, 2**33 + 1)]
    for start in starts:
        for grid in range(COUNT):
            low, high = start, start * (1 + 2 * TOLERANCE) + 2 * TOLERANCE * FLOOR
            if start.is_integer() and start > 0:
                high = start + min(2 * TOLERANCE * start, 0.5)
            first = codes(grid, low)
            while (middle := low + (high - low) / 2) not in (low, high):
                low, high = (middle, high) if codes(grid, middle) == first else (low, middle)
            found.append(high)
    return found


def test_values_around_each_grid_edge_agree() -> None:
    above = edges()
    above += [-each for each in above]
    for down in (1e-16, 1e-14, 1e-12, 1e-9):
        below = [math.nextafter(each - down * abs(each), -math.inf) for each in above]
        pairs = zip(all_digests(below), all_digests(above), strict=True)
        apart = [number for number, (one, other) in zip(above, pairs, strict=True) if not agree(one, other)]
        # Beyond this size, two whole numbers are nearer than the tolerance, and differ all the same.
        assert [number for number in apart if abs(number) < 0.1 / down] == []


def test_decimals_of_same_scale_are_compared_exactly() -> None:
    def differ(one: Row, other: Row) -> bool:
        left, right = digests([[one], [other]], False, TOLERANCE)
        return not agree(left, right)

    cent = (Decimal("1234567.89"), 3.5), (Decimal("1234567.90"), 3.5)
    assert differ(*cent)
    assert differ((Decimal("12345678901234567890.01"),), (Decimal("12345678901234567890.02"),))
    assert differ((Decimal("1234567.01"),), (Decimal("1234567.02"),)), "near a whole number"
    assert not differ((Decimal("1234567.89"),), (1234567.9,)), "a double is compared by the tolerance"
    assert not differ((Decimal("0.33333333333333333333"),), (Decimal("0.33333333333333333334"),)), "a quotient"
    # A double on an edge doesn't change how decimals next to it are compared.
    edge = 3 * (1 + 2.0**-23)
    assert not differ((Decimal("1.50"), math.nextafter(edge, 0)), (Decimal("1.50"), math.nextafter(edge, 9)))


def test_digest_does_not_depend_on_other_answers() -> None:
    batch = answers(5, 300)
    batch += [[], [(None,) * 7], [(1,) * 7], [(2.5,) * 7], [([1, 2.5, None], [], *(0,) * 5)]]
    together = digests(batch, True, TOLERANCE)
    assert together == [digests([each], True, TOLERANCE)[0] for each in batch]
    assert len(set(together)) == len(batch)


def test_numbers_in_lists_are_compared_like_others() -> None:
    lists = [[([1, 0.1 + 0.2],)], [([1.0, 0.3],)], [([1, 0.3001],)], [([0.3, 1],)], [([1, 0.3, None],)]]
    one, same, *others = digests(lists, False, TOLERANCE)
    assert agree(one, same) and not any(agree(one, other) for other in others)
