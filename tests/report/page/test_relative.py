"""Tests that the first picture of a page agrees with the answer, marks the fastest, and clips wide intervals."""

from __future__ import annotations

from typing import Any

import pytest
from madeup import Rates, a_cell, of_rates

from dyno.contracts.model import Tier
from dyno.report.page import relative
from dyno.report.tables import display, wording
from dyno.results import Run
from dyno.stats import answer

STEADY = (1.0, 1.01, 1 / 1.01, 1.0, 1.0)
WILD = (1.0, 9.0, 0.1, 5.0, 0.3)


def run(phase: str = "read", noise: Rates = STEADY, blocks: int = 5, **factors: float) -> Run:
    found = [[1e6 * factor * (each or 1) for each in noise[:blocks]] for factor in factors.values()]
    if noise is WILD:
        # The first engine has no noise, since equal noise of both would cancel out.
        found[0] = [1e6 * next(iter(factors.values()))] * blocks
    cells = zip(factors, found, strict=True)
    return of_rates(*((a_cell(name), {phase: rates}) for name, rates in cells), phases=(phase,))


def test_figures_match_answer_and_only_fastest_is_marked() -> None:
    found = run(sqlite=1, lmdb=4, leveldb=2)
    (picture,) = relative.pictures(found)
    assert [(bar.name, bar.mark) for bar in picture.bars] == [("lmdb", "fastest"), ("leveldb", ""), ("sqlite", "")]
    (told,) = answer.answers(found)
    for bar, (_, seen) in zip(picture.bars[1:], told.others, strict=True):
        assert bar.figure == "{} [{}]".format(*wording.ratio(seen)) and bar.verdict == wording.verdict(seen)
        assert bar.at == pytest.approx(picture.one * (seen.ratio or 0))
        assert (bar.low, bar.high) == pytest.approx((picture.one * (seen.low or 0), picture.one * (seen.high or 0)))
    assert picture.bars[0].at == picture.one < 100
    assert picture.title == "read, at tier process"


def test_engines_not_shown_slower_are_equal_or_undecided() -> None:
    (picture,) = relative.pictures(run(noise=WILD, lmdb=1, sqlite=1))
    assert {bar.mark for bar in picture.bars} == {"can't tell"}
    (picture,) = relative.pictures(run(sqlite=1, lmdb=1, leveldb=0.2))
    assert {bar.name: bar.mark for bar in picture.bars} == {
        **dict.fromkeys(("sqlite", "lmdb"), "equally fast"),
        "leveldb": "",
    }


def test_wide_interval_is_clipped_without_shrinking_other_bars() -> None:
    (picture,) = relative.pictures(run(noise=WILD, lmdb=1, sqlite=1))
    best, other = picture.bars
    assert other.cut and other.high == 100 and best.at == picture.one > 80


def test_too_few_samples_draw_only_best_without_mark() -> None:
    (picture,) = relative.pictures(run(blocks=2, lmdb=2, sqlite=1))
    assert [(bar.mark, bar.at is None) for bar in picture.bars] == [("", False), ("", True)]
    assert picture.bars[0].verdict == "the best figures" and "more sample" in picture.bars[1].verdict


def test_single_engine_has_no_picture() -> None:
    assert relative.pictures(run(lmdb=1)) == []


def test_engines_and_pictures_are_limited_to_the_first() -> None:
    engines: dict[str, Any] = {f"engine{at}": 1 + at / 10 for at in range(20)}
    (picture,) = relative.pictures(run(**engines))
    assert len(picture.bars) == display.BARS and "of 19 others" in picture.rest
    cells = [
        (a_cell(name, tier, records=size), {"read": [1e6, 1e6, 1e6]})
        for size in (1, 2, 3)
        for tier in (Tier.PROCESS, Tier.POWER)
        for name in ("lmdb", "sqlite")
    ]
    found = relative.pictures(of_rates(*cells, phases=("read",)))
    assert len(found) == display.PICTURES
    assert found[0].title == "read, at tier process with records=1"


def test_picture_title_uses_phase_alias() -> None:
    (picture,) = relative.pictures(run(phase="rand-key", lmdb=2, sqlite=1), {"rand-key": "get"})
    assert picture.title.startswith("get, ")
