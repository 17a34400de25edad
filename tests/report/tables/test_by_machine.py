"""Verdicts of several machines side by side: they differ if their kinds do, however they are worded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from madeup import reads

from dyno.report.tables.machines import by_machine
from dyno.results import Run

BASE = (100, 101, 99, 100, 102, 98)
FAST, FASTER, SLOW = ([factor * rate for rate in BASE] for factor in (1.5, 1.8, 0.5))
UNSURE, LESS_SURE = (90, 115, 95, 112, 100, 104), (70, 140, 90, 120, 100, 104)


def a_run(name: str, rates: Sequence[float]) -> Run:
    return replace(reads(sqlite=BASE, lmdb=rates), path=Path(f"{name}.json"))


def verdict(*rates: Sequence[float]) -> str:
    _, section = by_machine([a_run(name, of) for name, of in zip("abc", rates, strict=False)])
    return str(section.rows[0][-1])


def test_unclear_machines_share_the_least_certain_verdict() -> None:
    assert verdict(UNSURE, LESS_SURE) == verdict(LESS_SURE, UNSURE) == verdict(LESS_SURE, LESS_SURE)
    assert verdict(UNSURE, LESS_SURE).startswith("can't tell, needs")


def test_machines_that_agree_get_the_weakest_verdict() -> None:
    assert verdict(FAST, FASTER) == verdict(FASTER, FAST) == verdict(FAST, FAST)
    assert verdict(FAST, FAST).startswith("faster by at least 4")


def test_machines_that_contradict_are_named() -> None:
    text = verdict(FAST, SLOW)
    assert text.startswith("machines differ: faster by at least 4") and text.endswith(" on b"), text


def test_unclear_machine_among_clear_ones_is_named() -> None:
    text = verdict(FAST, UNSURE)
    assert text.startswith("faster by at least 4") and "on a; can't tell" in text and text.endswith(" on b"), text
