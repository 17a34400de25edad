"""Tests the bisection by simulated versions, whose speeds are known, and its speeds from made-up runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from madeup import Rates, a_cell, a_sample, an_attempt, of_cells, of_rates

from dyno.contracts.cell import Cell
from dyno.contracts.model import VERSION
from dyno.report.tables.bisection import describe_kind, describe_result, describe_step
from dyno.results import Run
from dyno.stats import bisection
from dyno.stats.bisection import (
    ALIKE,
    DIFFERENT,
    OPEN,
    Bisection,
    CannotMeasure,
    Look,
    Verdict,
    choose_metric,
    find_change,
    find_look,
    read_logs,
)
from dyno.stats.metric import UNDISTURBED

MARGIN = 0.03
PLANTED = -math.log(1.1)
Logs = dict[str, dict[int, float]]


def name_versions(levels: Sequence[float]) -> list[str]:
    return [f"1.{number}" for number in range(len(levels))]


def search(
    levels: Sequence[float],
    seed: int = 1,
    noise: float = 0.02,
    most: int = 300,
    without: Sequence[str] = (),
    bimodal: float = 0.0,
) -> Bisection:
    """Searches among versions with these logarithms of speeds. All of a block share a drift of 10 %, and one trial in
    ten is disturbed."""
    random = np.random.default_rng(seed)
    versions = name_versions(levels)
    speeds = dict(zip(versions, levels, strict=True))

    def measure(names: tuple[str, ...], decide: Callable[[Logs], Verdict]) -> Logs:
        if missing := [name for name in names if name in without]:
            raise CannotMeasure(missing[0], "no wheel")
        logs: Logs = {name: {} for name in names}
        for block in range(most):
            drift = random.normal(0, 0.1)
            for name in names:
                disturbed = random.exponential(0.1) if random.random() < 0.1 else 0.0
                mode = bimodal if random.random() < 0.5 else 0.0
                logs[name][block] = speeds[name] + drift + random.normal(0, noise) - disturbed - mode
            if decide(logs).kind != OPEN:
                break
        return logs

    return find_change(versions, measure, MARGIN)


def test_planted_step_is_always_found() -> None:
    for seed in range(100):
        result = search([0.0] * 8 + [PLANTED] * 8, seed)
        assert (result.kind, result.span.ends) == (DIFFERENT, ("1.7", "1.8")), seed
        difference = result.steps[-1].verdict.difference
        assert difference is not None and difference.low < PLANTED < difference.high
        assert not result.several


@pytest.mark.parametrize("at", [1, 4, 15])
def test_improvement_is_found_at_any_place(at: int) -> None:
    result = search([0.0] * at + [0.1] * (16 - at))
    assert (result.kind, result.span.ends) == (DIFFERENT, (f"1.{at - 1}", f"1.{at}"))


@pytest.mark.parametrize("bimodal", [0.0, 0.1])
def test_equal_versions_are_never_named(bimodal: float) -> None:
    for seed in range(200):
        result = search([0.0] * 16, seed, most=60, bimodal=bimodal)
        assert result.kind in (ALIKE, OPEN), seed


def test_change_within_margin_is_not_named() -> None:
    kinds = [search([0.0] * 8 + [-0.02] * 8, seed, noise=0.01).kind for seed in range(40)]
    assert set(kinds) == {ALIKE}


def test_larger_of_two_changes_is_followed_and_said() -> None:
    result = search([0.0] * 3 + [-0.07] * 9 + [-0.27] * 4, noise=0.005)
    assert result.span.ends == ("1.11", "1.12")
    assert result.several
    sentence = describe_result(result, "toy")
    assert sentence.startswith("toy 1.12 is the first version with the change: slower than 1.11 by ")
    assert sentence.endswith("it is the larger of several changes between 1.0 and 1.15")


def test_equal_parts_of_a_change_are_told_apart_from_none() -> None:
    result = search([0.0] * 4 + [-0.1] * 4 + [-0.2] * 4, noise=0.01)
    assert result.kind == DIFFERENT and result.span.ends in {("1.3", "1.4"), ("1.7", "1.8")}
    assert result.several


def test_gradual_change_names_no_version() -> None:
    levels = [-0.02 * number for number in range(5)]
    result = search(levels, noise=0.003)
    assert describe_kind(result) == "gradual"
    assert "is gradual: no single step above 3.0 %" in describe_result(result, "toy")


def test_neighbours_stand_in_for_a_missing_version() -> None:
    result = search([0.0] * 8 + [PLANTED] * 8, without=["1.7", "1.11"])
    assert result.left_out.keys() >= {"1.7"}
    assert (describe_kind(result), result.span.ends) == ("between", ("1.6", "1.8"))
    sentence = describe_result(result, "toy")
    assert sentence.startswith("The change of toy is after 1.6, up to 1.8, which is slower than 1.6 by ")
    assert sentence.endswith("1.7 can't be measured")


def test_missing_end_ends_the_search() -> None:
    with pytest.raises(CannotMeasure, match="no wheel"):
        search([0.0] * 4, without=["1.3"])


def test_ends_that_cannot_be_told_apart_say_how_many_samples() -> None:
    result = search([0.0] * 2 + [-0.05] * 2, noise=0.1, most=20)
    assert (result.kind, len(result.steps)) == (OPEN, 1)
    more = result.steps[0].verdict.more
    assert more is not None and more > 20
    assert f"can't tell, needs about {more:,} more samples" in describe_step(result.steps[0], MARGIN)


def test_verdict_between_looks_is_that_of_the_last_look() -> None:
    values = np.random.default_rng(1).normal(0.1, 0.05, 100).tolist()

    def judge(blocks: int) -> Verdict:
        logs = {"a": dict.fromkeys(range(blocks), 0.0), "b": dict(enumerate(values[:blocks]))}
        return bisection.judge_ends(logs, ("a", "b"), MARGIN, 0.01)

    for blocks in range(5, 101):
        look = find_look(blocks)
        assert look is not None
        assert judge(blocks) == judge(look.blocks)


def test_looks_share_the_chance() -> None:
    assert [find_look(blocks) for blocks in (4, 5, 6, 7)] == [None, Look(1, 5), Look(1, 5), Look(2, 7)]
    assert sum(Look(number, 5).share(0.01) for number in range(1, 1_000)) < 0.01


# -- speeds from run files ------------------------------------------------------------------------------------


def a_version(version: str, **options: str) -> Cell:
    return replace(a_cell("toy"), options={VERSION: version, **options})


def a_run(**rates: dict[str, Rates]) -> Run:
    rows = [(a_version(name.replace("_", ".")), phases) for name, phases in rates.items()]
    return of_rates(*rows, phases=["fill", "read"])


NAMES = {"1.0": "1.0", "1.1": "1.1"}


def test_speed_is_the_geometric_mean_of_phases() -> None:
    old: dict[str, Rates] = {"fill": [100, 100, 100], "read": [1_000, 1_000, 1_000]}
    new: dict[str, Rates] = {"fill": [400, 400, 400], "read": [1_000, 1_000, 1_000]}
    logs = read_logs(a_run(**{"1_0": old, "1_1": new}), NAMES, VERSION)
    assert [logs["1.1"][block] - logs["1.0"][block] for block in range(3)] == pytest.approx([math.log(2)] * 3)


def test_version_without_a_number_is_named() -> None:
    old: dict[str, Rates] = {"fill": [100, 100], "read": [100, 100]}
    new: dict[str, Rates] = {"fill": [], "read": []}
    with pytest.raises(CannotMeasure) as raised:
        read_logs(a_run(**{"1_0": old, "1_1": new}), NAMES, VERSION)
    assert raised.value.version == "1.1"


def test_waiting_for_a_core_is_left_out_if_known() -> None:
    rates: dict[str, Rates] = {"fill": [100, 100], "read": [100, 100]}
    assert choose_metric(a_run(**{"1_0": rates})) is None
    client = {"core_wait_ns": 1_000, "user_ns": 1_000, "system_ns": 0}
    attempts = tuple(an_attempt(block, a_sample(client=client)) for block in range(3))
    assert choose_metric(of_cells(a_version("1.0"), attempts=attempts)) is UNDISTURBED
