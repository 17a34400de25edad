"""Guards the comparisons that are read together: at most 1 of 100 runs of equal rows may have a false statement."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import combinations

import pytest
from madeup import a_cell, of_rates
from scipy.special import digamma, polygamma
from scipy.stats import chi2

from dyno.results import Run
from dyno.stats import family
from dyno.stats.answer import answers
from dyno.stats.compare import compare_with_baseline, pair_centers, tables
from dyno.stats.estimate import Center
from dyno.stats.family import ALONE, CHANCE, CommonVariance, make_family

ROWS = [f"engine{at}" for at in range(14)]


def a_run_of_equals(seed: int, spread: Callable[[random.Random], float], blocks: int = 6) -> Run:
    """A run of 14 equal rows in two phases, with a drift from block to block."""
    source = random.Random(seed)
    drift = [math.exp(source.gauss(0, 0.1)) for _ in range(blocks)]
    rates = {
        name: {
            phase: [1e6 * each * math.exp(source.gauss(0, width)) for each in drift]
            for phase, width in (("fill", spread(source)), ("read", spread(source)))
        }
        for name in ROWS
    }
    return of_rates(*((a_cell(name), of_phases) for name, of_phases in rates.items()))


def states_a_difference(run: Run) -> bool:
    of_tables = [c.verdict for table in tables(run) for c in compare_with_baseline(table, None)]
    of_answers = [verdict for answer in answers(run) for _, verdict in answer.others]
    return any(verdict.kind in ("faster", "slower") for verdict in (*of_tables, *of_answers))


@pytest.mark.claim("Of 100 runs of equal rows, at most one has any false statement, whatever row is the fastest")
@pytest.mark.parametrize(
    "spread", [lambda source: 0.05, lambda source: math.exp(source.uniform(math.log(0.02), math.log(0.3)))]
)
def test_runs_of_equal_rows_state_no_difference(spread: Callable[[random.Random], float]) -> None:
    # With 99 % for each pair, more than half of these runs state one. By chance, two of 40 do in 6 % of cases at 1 %.
    assert sum(states_a_difference(a_run_of_equals(seed, spread)) for seed in range(40)) <= 2


def test_difference_among_many_rows_is_found() -> None:
    source = random.Random(1)
    rates = {name: [1e6 * math.exp(source.gauss(0, 0.05)) for _ in range(6)] for name in ROWS}
    rates[ROWS[0]] = [1.3 * rate for rate in rates[ROWS[0]]]
    run = of_rates(*((a_cell(name), {"read": values}) for name, values in rates.items()), phases=["read"])
    (table,) = tables(run)
    assert [c.verdict.kind for c in compare_with_baseline(table, None)] == ["slower"] * 13


def test_named_baseline_has_confidence_of_one_comparison() -> None:
    run = a_run_of_equals(1, lambda source: 0.05)
    table = tables(run)[0]
    best = table.rows[0][0].cell.row
    named, chosen = (compare_with_baseline(table, base)[0].verdict for base in (best, None))
    assert named.low is not None and chosen.low is not None
    assert named.low > chosen.low
    assert table.family.confidence == pytest.approx(1 - CHANCE / (2 * math.comb(14, 2)))


def test_runs_that_decide_block_by_block_have_wider_intervals() -> None:
    run = a_run_of_equals(1, lambda source: 0.05)
    plan = {**run.recorded["plan"], "until": "decided", "within": 60.0}
    decided = Run(run.path, {**run.recorded, "plan": plan}, run.cells, run.attempts)
    doubt = [1 - tables(each)[0].family.confidence for each in (run, decided)]
    assert doubt[0] == pytest.approx(family.LOOKS * doubt[1])


# -- the common variance ------------------------------------------------------------------------------------------


def drawn(variances: list[float], blocks: int, seed: int = 1) -> list[tuple[Center, int]]:
    """Centers of independent ratios with these variances, as of tables of two rows."""
    source = random.Random(seed)
    rows = [[math.exp(source.gauss(0, math.sqrt(each))) for _ in range(blocks)] for each in variances]
    return [pair_centers([dict(enumerate(row)), dict.fromkeys(range(blocks), 1.0)])[0] for row in rows]


def test_common_variance_of_equal_spreads_is_the_true_one() -> None:
    common = family.estimate_common_variance([[each] for each in drawn([0.01] * 400, 6)])
    assert common.degrees > 30
    assert common.variance == pytest.approx(0.01, rel=0.1)


def test_unequal_spreads_have_little_in_common() -> None:
    source = random.Random(2)
    common = family.estimate_common_variance([[each] for each in drawn([source.choice([1e-4, 1.0])] * 1, 6)] * 1)
    assert common.degrees == 0
    unequal = [source.choice([1e-4, 1.0]) for _ in range(100)]
    assert family.estimate_common_variance([[each] for each in drawn(unequal, 6)]).degrees < 1


def test_few_variances_are_not_pooled() -> None:
    assert make_family([drawn([0.01], 6)], 1).common == CommonVariance()
    assert make_family([], 0).common == CommonVariance()
    assert CommonVariance().moderate(Center(0.1, 0.2, 5), 6) == Center(0.1, 0.2, 5)


def test_moderated_error_lies_between_own_and_common_one() -> None:
    moderated = CommonVariance(variance=0.06, degrees=5).moderate(Center(0.1, 0.2, 5), 6)
    # The own variance of a block is 0.24.
    assert moderated.error**2 == pytest.approx((0.24 + 0.06) / 2 / 6)
    assert moderated.degrees == 10


def test_equal_speeds_get_the_error_of_the_others() -> None:
    assert CommonVariance(variance=0.06, degrees=5).moderate(Center(0.1, 0.0, 5), 6).error > 0
    assert ALONE.common.moderate(Center(0.1, 0.0, 5), 6).error == 0


def test_special_functions_agree_with_scipy() -> None:
    for x in (0.5, 1.0, 2.5, 9.9, 40.0):
        assert family.digamma(x) == pytest.approx(float(digamma(x)), abs=1e-9)
        assert family.trigamma(x) == pytest.approx(float(polygamma(1, x)), abs=1e-9)
    for degrees in (3, 10, 100):
        assert family.chi_squared(0.2, degrees) == pytest.approx(float(chi2.ppf(0.2, degrees)), rel=0.02)


def test_pairs_of_many_rows_are_bounded() -> None:
    rows = [dict.fromkeys(range(3), float(at + 1)) for at in range(200)]
    assert len(pair_centers(rows)) == len(list(combinations(range(24), 2)))
