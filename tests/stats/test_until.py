"""Guards when a run has enough samples: when every interval that can exist is as narrow as requested."""

from __future__ import annotations

import pytest
from madeup import Rates, a_cell, a_sample, an_attempt, of_cells, of_rates, reads

from dyno.results import Run
from dyno.stats.estimate import Estimate
from dyno.stats.summary import widest

EVEN = (1_000, 1_001, 999, 1_000, 1_001, 999)
"""Rates within ±0.1 % of each other."""
WIDE = (1_000, 1_100, 900, 1_000, 1_100, 900)


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate(100.0, 90.0, 105.0), 0.10),
        (Estimate(100.0, 99.0, 120.0), 0.20),
        (Estimate(100.0, 100.0, 100.0), 0.0),
        (Estimate(100.0, None, None), None),
    ],
)
def test_reach_is_farther_interval_side_relative_to_median(estimate: Estimate, expected: float | None) -> None:
    assert estimate.reach == (None if expected is None else pytest.approx(expected))


@pytest.mark.claim("--until adds blocks until each row is narrow or the time is over, and ignores null engines")
def test_widest_row_is_none_if_all_are_narrow() -> None:
    assert widest(reads(sqlite=EVEN, lmdb=EVEN), 0.01) is None


@pytest.mark.claim("--until adds blocks until each row is narrow or the time is over, and ignores null engines")
def test_widest_row_over_the_target_is_named() -> None:
    run = reads(sqlite=EVEN, lmdb=WIDE, memory=(1_000, 1_050, 950, 1_000, 1_020, 980))
    # The interval of six values lies between the outermost pair and the next pair, which are alike here.
    assert widest(run, 0.05) == "lmdb in read: ±10.0 %, wanted ±5 %"
    assert widest(run, 0.025) == "lmdb in read: ±10.0 %, wanted ±2.5 %"
    assert widest(run, 0.099) is not None
    assert widest(run, 0.101) is None


@pytest.mark.parametrize("few", [(1_000,), (1_000, 1_000), (1_000, None, None, 1_000)])
def test_row_without_interval_is_not_narrow(few: Rates) -> None:
    assert widest(reads(sqlite=EVEN, lmdb=few), 0.05) == "lmdb in read: too few samples, wanted ±5 %"


def test_narrowness_is_required_in_every_phase() -> None:
    run = of_rates((a_cell(), {"fill": EVEN, "read": WIDE}))
    assert widest(run, 0.05) == "sqlite in read: ±10.0 %, wanted ±5 %"


def a_row_that_is_void(run: Run) -> Run:
    wrong = an_attempt(0, a_sample(void="lost one"), cell=1)
    return of_cells(*run.cells, a_cell("lmdb"), attempts=(*run.attempts, wrong))


@pytest.mark.claim("--until adds blocks until each row is narrow or the time is over, and ignores null engines")
def test_null_engines_and_void_rows_need_no_narrowness() -> None:
    floor = of_rates((a_cell(), {"read": EVEN}), (a_cell("null", floor=True), {"read": WIDE}), phases=["read"])
    assert widest(floor, 0.05) is None
    assert widest(a_row_that_is_void(reads(sqlite=EVEN)), 0.05) is None
    assert widest(a_row_that_is_void(reads(sqlite=WIDE)), 0.05) is not None
    assert widest(reads(sqlite=()), 0.05) is None
