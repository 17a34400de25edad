"""Guards the gate for CI. A row that fails is sure to be slower than the margin allows, whatever the number of rows;
a row that passes as fine is sure not to be; and the gate finds a regression of 10 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells, of_rates, reads, recorded, written
from noise import CONTAMINATED, SLOWED, Noise
from scipy import stats

from dyno import check
from dyno.contracts.model import Tier
from dyno.library.result import Result
from dyno.report.tables import wording
from dyno.results import Run
from dyno.stats.metric import metric
from dyno.stats.two_runs import compare_runs, gate

MARGIN = 0.05
Trials = Sequence[Sequence[float]]
"""The speeds of each row's trials."""


def of(rows: Trials) -> Run:
    return of_rates(*((a_cell(f"e{at}"), {"read": rates}) for at, rates in enumerate(rows)), phases=["read"])


def states(before: Trials, after: Trials, margin: float = MARGIN) -> list[str]:
    return [judged.state for judged in gate(compare_runs(of(before), of(after)), margin)]


def even(rate: float, count: int = 5, by: float = 0.005) -> list[float]:
    """Trials whose logarithms have exactly this mean and this standard deviation."""
    draws = np.random.default_rng(count).standard_normal(count)
    return (rate * np.exp(by * (draws - draws.mean()) / draws.std(ddof=1))).tolist()


# -- three states ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "by", "state"),
    [
        (90_000, 0.005, "slower"),
        (100_000, 0.005, "fine"),
        (120_000, 0.005, "fine"),
        (97_000, 0.005, "fine"),
        (95_000, 0.005, "unclear"),
        (90_000, 0.1, "unclear"),
        (100_000, 0.1, "unclear"),
    ],
)
def test_row_state_is_unclear_unless_certain(after: float, by: float, state: str) -> None:
    assert states([even(100_000, by=by)], [even(after, by=by)]) == [state]


@pytest.mark.parametrize(("margin", "state"), [(0.02, "slower"), (0.2, "fine")])
def test_margin_decides_between_slower_and_fine(margin: float, state: str) -> None:
    assert states([even(100_000)], [even(90_000)], margin) == [state]


# -- a slower machine -----------------------------------------------------------------------------------------


def with_usage(rates: Sequence[float], cpu_ns: int, waits: int = 0) -> Run:
    """A run whose items take this much CPU time, within 0.1 %."""
    attempts = [
        an_attempt(
            block,
            a_sample(
                "read",
                rate,
                client={
                    "user_ns": int(cpu_ns * int(rate) * (1 + block / 5_000)),
                    "system_ns": 0,
                    "voluntary_switches": waits,
                    "involuntary_switches": 50,
                },
            ),
        )
        for block, rate in enumerate(rates)
    ]
    return of_cells(a_cell(), attempts=tuple(attempts), samples=len(rates))


@pytest.mark.claim("The gate fails no computing row that only the clock calls slower, unless measured in turns")
@pytest.mark.parametrize(
    ("cpu_ns", "waits", "state"),
    [(4_000, 0, "unclear"), (4_800, 0, "slower"), (4_000, 500, "slower")],
    ids=["same CPU time", "more CPU time", "waits for a device"],
)
def test_row_that_only_the_clock_calls_slower_is_unclear(cpu_ns: int, waits: int, state: str) -> None:
    before, after = with_usage(even(70_000), 4_000, waits), with_usage(even(50_000), cpu_ns, waits)
    (judged,) = gate(compare_runs(before, after), MARGIN)
    assert (judged.state, judged.same_cpu_time) == (state, state == "unclear")


def test_command_that_measures_in_turns_is_printed() -> None:
    before, after = with_usage(even(70_000), 4_000), with_usage(even(50_000), 4_000)
    lines = " ".join(check(Result(after), Result(before)).lines)
    assert "each item takes the same CPU time" in lines
    assert "for round in $(seq 5); do for side in before after; do dyno run records -e sqlite" in lines


def test_suspicious_row_without_later_number_is_lost() -> None:
    facts = {"answers_judged": 1_000, "answers_empty": 900}
    before = of_cells(
        a_cell(), attempts=tuple(an_attempt(at, a_sample("read", facts=facts)) for at in range(3)), samples=3
    )
    after = of_cells(a_cell(), attempts=tuple(an_attempt(at, outcome="crash") for at in range(3)), samples=3)
    assert len(compare_runs(before, after).lost) == 1


def test_row_with_under_three_trials_is_unclear() -> None:
    assert states([even(100_000, 2)], [even(10_000, 5)]) == ["unclear"]
    assert states([even(100_000, 2), even(100_000)], [even(10_000), even(10_000)]) == ["unclear", "slower"]


def test_equal_runs_without_noise_are_fine() -> None:
    assert states([[100_000] * 3], [[100_000] * 3]) == ["fine"]
    assert states([[100_000] * 3], [[90_000] * 3]) == ["slower"]


def test_a_latency_may_be_longer_by_the_margin() -> None:
    def run(*spans_ns: int) -> Run:
        attempts = tuple(an_attempt(b, a_sample(histogram=recorded(ns))) for b, ns in enumerate(spans_ns))
        return replace(reads(sqlite=()), attempts=attempts)

    def state(ns: int, margin: float) -> str:
        found = compare_runs(run(*[10_000_000] * 3), run(*[ns] * 3), metric("p99"))
        return gate(found, margin)[0].state

    # 52 % more time is a speed of 66 %: slower than a margin of 50 % allows, though more than half as fast.
    assert [state(ns, 0.5) for ns in (14_800_000, 15_200_000)] == ["fine", "slower"]


def test_wording_and_interval_agree_with_the_gates_state() -> None:
    """With few trials, wide intervals and several rows, a verdict at another confidence level would contradict the
    state.
    """
    states_ = set()
    for seed in range(60):
        random = np.random.default_rng(seed)
        shape = int(random.integers(1, 6)), int(random.integers(3, 6))
        noise = random.choice([0.02, 0.3])
        before = (1e6 * np.exp(noise * random.standard_normal(shape))).round().tolist()
        slowed = random.uniform(0.2, 1.1, (shape[0], 1))
        after = (1e6 * slowed * np.exp(noise * random.standard_normal(shape))).round().tolist()
        for judged in gate(compare_runs(of(before), of(after)), MARGIN):
            verdict, said = judged.verdict, wording.format_gate_verdict(judged.verdict)
            states_.add(judged.state)
            assert verdict.low is not None and verdict.high is not None
            if judged.state == "slower":
                assert said.startswith("slower by") and "at least" in said
                assert verdict.bound is not None and verdict.bound > MARGIN
            elif judged.state == "fine":
                assert said.startswith(("slower by at most", "faster", "at least", "not slower"))
                assert verdict.low >= 1 - MARGIN
            else:
                assert said.startswith("can't tell") and verdict.bound is None
    assert states_ == {"slower", "fine", "unclear"}


def test_gate_failure_at_three_trials_has_slower_verdict() -> None:
    before, after = [[1e6, 1.4e6, 0.7e6]], [[2e5, 3.2e5, 1.1e5]]
    (change,) = compare_runs(of(before), of(after)).changes
    (judged,) = gate(compare_runs(of(before), of(after)), MARGIN)
    # The 99 % interval of the comparison may hold 1 even though the gate's interval doesn't.
    assert (change.verdict.kind, judged.state, judged.verdict.kind) == ("unclear", "slower", "slower")


# -- Holm -----------------------------------------------------------------------------------------------------


def holm(before: Trials, after: Trials) -> list[bool]:
    """Independent calculation of Holm's method from scipy's t-tests."""
    chances = [
        stats.ttest_ind(np.log(new) - np.log(1 - MARGIN), np.log(old), equal_var=False, alternative="less").pvalue
        for old, new in zip(before, after, strict=True)
    ]
    failed = [False] * len(chances)
    for done, at in enumerate(np.argsort(chances)):
        if chances[at] > 0.01 / (len(chances) - done):
            break
        failed[at] = True
    return failed


@pytest.mark.claim("The gate fails for nothing at most once in a hundred times, whatever the number of rows")
@pytest.mark.parametrize("seed", range(40))
def test_failing_rows_are_those_that_holms_method_rejects(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, trials = int(random.integers(1, 9)), int(random.integers(3, 9))
    shape = rows, trials
    before = (1e6 * np.exp(0.02 * random.standard_normal(shape))).round()
    # Slowdowns near the margin, where the order and the number of rows decide.
    slowed = random.uniform(0.86, 0.96, (rows, 1))
    after = (1e6 * slowed * np.exp(0.02 * random.standard_normal(shape))).round()
    found = [state == "slower" for state in states(before.tolist(), after.tolist())]
    assert found == holm(before.tolist(), after.tolist())


def test_row_failing_alone_is_unclear_among_many() -> None:
    alone, other = (even(100_000), even(93_000)), (even(100_000), even(100_000))
    assert states([alone[0]], [alone[1]]) == ["slower"]
    many = [alone, *[other] * 30]
    assert states([old for old, _ in many], [new for _, new in many])[0] == "unclear"


# -- error rates ----------------------------------------------------------------------------------------------

ROWS, TRIALS = 3, 10
CHECKS = 200


def checked(number: int, after: Sequence[float], noise: Noise) -> list[str]:
    """States of the rows in check `number`: each row has its speed after the change, and the noise of real trials."""
    random = np.random.default_rng([number, 5])
    shape = len(after), TRIALS
    before, now = 1e6 * noise.draw(random, shape), 1e6 * np.array(after)[:, None] * noise.draw(random, shape)
    return states(before.tolist(), now.tolist())


def _steady(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A standard deviation of 2 %, as on an otherwise idle machine."""
    return np.exp(0.02 * random.standard_normal(shape))


STEADY = Noise("steady", _steady)


@pytest.mark.claim("The gate fails for nothing at most once in a hundred times, whatever the number of rows")
@pytest.mark.parametrize("noise", [STEADY, CONTAMINATED, SLOWED], ids=lambda noise: noise.name)
def test_false_gate_failures_stay_within_one_percent(noise: Noise) -> None:
    failed = sum("slower" in checked(number, [1.0] * ROWS, noise) for number in range(CHECKS))
    assert failed <= 0.01 * CHECKS


@pytest.mark.claim("The gate fails for nothing at most once in a hundred times, whatever the number of rows")
@pytest.mark.parametrize("rows", [1, 6])
def test_failures_at_the_margin_stay_within_one_percent(rows: int) -> None:
    """The worst case that the gate allows: every row is slower by exactly the margin."""
    failed = sum("slower" in checked(number, [1 - MARGIN] * rows, STEADY) for number in range(CHECKS))
    assert failed <= CHECKS * 0.01 + 3 * sqrt(CHECKS * 0.01 * 0.99)


@pytest.mark.claim("The gate finds nine in ten of planted slowdowns of 10 %")
def test_ninety_percent_of_10_percent_regressions_are_found() -> None:
    """One row of three needs 10 % more time for the same work."""
    found = [checked(number, [1.0, 1 / 1.1, 1.0], STEADY) for number in range(CHECKS)]
    assert sum(states_[1] == "slower" for states_ in found) >= 0.9 * CHECKS
    assert sum("slower" in (states_[0], states_[2]) for states_ in found) <= 0.01 * CHECKS


def test_slowdown_of_half_the_margin_passes() -> None:
    failed = sum("slower" in checked(number, [1 - MARGIN / 2] * ROWS, STEADY) for number in range(CHECKS))
    assert failed <= 0.01 * CHECKS


def test_a_gate_without_rows_judges_nothing() -> None:
    assert gate(compare_runs(reads(sqlite=(1,) * 3, lmdb=()), reads(sqlite=(), lmdb=(1,) * 3)), MARGIN) == []


@pytest.mark.parametrize(("before", "after", "passed"), [("power", "volatile", False), ("volatile", "power", True)])
def test_row_whose_tier_fell_is_lost(before: str, after: str, passed: bool, tmp_path: Path) -> None:
    cells = [replace(a_cell("postgresql", Tier(tier)), follows=True) for tier in (before, after)]
    slow, fast = (
        of_rates((cell, {"read": even(rate)}), phases=["read"]) for cell, rate in zip(cells, (1e3, 2e3), strict=True)
    )
    found = check(written(fast, tmp_path / "after.json"), written(slow, tmp_path / "before.json"))
    assert found.passed is passed
    assert ["its tier fell from power to volatile" in line for line in found.lost] == ([] if passed else [True])
