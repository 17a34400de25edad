"""Guards which comparisons of a run are open, and which rows take another trial for them."""

from __future__ import annotations

import math

from madeup import Rates, a_cell, of_rates, reads

from dyno.stats.decisions import find_decisions, find_undecided_rows

EVEN = tuple(1e6 * value for value in (1.0, 1.001, 0.999, 1.0, 1.001, 0.999))
WIDE = tuple(1e6 * value for value in (1.0, 1.3, 0.8, 1.1, 0.9, 1.0))


def times(rates: Rates, factor: float) -> list[float | None]:
    return [None if rate is None else rate * factor for rate in rates]


def test_shown_difference_is_decided() -> None:
    decisions = find_decisions(reads(lmdb=times(EVEN, 2), sqlite=EVEN))
    assert (decisions.stated, decisions.open) == (1, ())


def test_equality_within_the_margin_is_decided() -> None:
    assert not find_decisions(reads(lmdb=times(EVEN, 1.001), sqlite=tuple(reversed(EVEN)))).open


def test_only_rows_in_open_comparisons_take_another_trial() -> None:
    run = reads(lmdb=WIDE, sqlite=tuple(reversed(WIDE)), memory=times(EVEN, 0.01))
    cells, text = find_undecided_rows(run, math.inf)
    assert cells == {0, 1}
    assert text == "1 of 2 comparisons open: lmdb and sqlite in read"


def test_comparison_in_one_phase_keeps_its_rows_open() -> None:
    run = of_rates(
        (a_cell("lmdb"), {"fill": times(EVEN, 2), "read": WIDE}),
        (a_cell("sqlite"), {"fill": EVEN, "read": tuple(reversed(WIDE))}),
    )
    cells, text = find_undecided_rows(run, math.inf)
    assert cells == {0, 1}
    assert "in read" in text
    assert "fill" not in text


def test_hopeless_comparisons_end_from_six_blocks_on() -> None:
    run = reads(lmdb=WIDE, sqlite=tuple(reversed(WIDE)))
    assert find_undecided_rows(run, 1) == (frozenset(), "")
    few = reads(lmdb=WIDE[:5], sqlite=tuple(reversed(WIDE[:5])))
    assert find_undecided_rows(few, 1)[0] == {0, 1}
    assert find_decisions(run).most > 1


def test_single_engine_has_nothing_to_decide() -> None:
    assert find_decisions(reads(lmdb=WIDE)).stated == 0
    assert find_undecided_rows(reads(lmdb=WIDE), math.inf) == (frozenset(), "")
