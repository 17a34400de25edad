"""Guards the verdict on a ratio: of three kinds, each consistent with its interval. An unclear verdict gives the
number of further blocks that would decide it. The interval covers the truth 99 times in 100.
"""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
from noise import EVEN, HALVES, KINDS, Noise
from scipy import stats

from dyno.stats.compare import compare_pairs
from dyno.stats.estimate import Center, center, compare_unpaired
from dyno.stats.verdict import Verdict, forecast_samples, judge

# -- three kinds ----------------------------------------------------------------------------------------------


def spread(ratio: float, by: float, blocks: int) -> list[float]:
    """Ratios whose logarithms have exactly this mean and this standard deviation."""
    draws = np.random.default_rng(blocks).standard_normal(blocks)
    even = (draws - draws.mean()) / draws.std(ddof=1)
    return np.exp(log(ratio) + by * even).tolist()


def of(ratios: list[float], margin: float = 0.05) -> Verdict:
    # The ratio's median lies at the center here.
    return judge(center(ratios), float(np.exp(np.mean(np.log(ratios)))), len(ratios), margin)


def interval(ratios: list[float]) -> tuple[float, float]:
    """Independent calculation of the 99 % interval."""
    logs = np.log(ratios)
    low, high = stats.t.interval(0.99, len(logs) - 1, loc=logs.mean(), scale=stats.sem(logs))
    return exp(low), exp(high)


@pytest.mark.claim("A verdict is one of three kinds and agrees with its interval")
@pytest.mark.parametrize(
    ("ratio", "by", "kind"),
    [
        (1.30, 0.02, "faster"),
        (0.70, 0.02, "slower"),
        (1.00, 0.01, "alike"),
        (1.01, 0.01, "alike"),
        (0.99, 0.01, "alike"),
        (1.00, 0.10, "unclear"),
        (1.30, 0.40, "unclear"),
        (1.04, 0.03, "unclear"),
    ],
)
def test_kind_and_bound_follow_from_the_interval(ratio: float, by: float, kind: str) -> None:
    ratios = spread(ratio, by, 6)
    low, high = interval(ratios)
    found = of(ratios)
    assert found.kind == kind
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.ratio == pytest.approx(ratio) and found.blocks == 6
    bounds = {"faster": low - 1, "slower": 1 - high, "alike": max(high - 1, 1 / low - 1), "unclear": None}
    assert found.bound == (None if bounds[kind] is None else pytest.approx(bounds[kind]))
    assert (found.more is not None) == (kind == "unclear")


def test_certain_difference_is_reported_however_small() -> None:
    found = of(spread(1.01, 0.001, 10))
    assert found.kind == "faster"
    assert found.bound is not None and 0 < found.bound < 0.01


@pytest.mark.claim("A verdict is one of three kinds and agrees with its interval")
@pytest.mark.parametrize(("margin", "kind"), [(0.02, "unclear"), (0.05, "alike"), (1.0, "alike")])
def test_alike_is_within_the_margin_on_both_sides(margin: float, kind: str) -> None:
    for ratio in (1.02, 1 / 1.02):
        assert of(spread(ratio, 0.02, 8), margin).kind == kind


@pytest.mark.parametrize("ratio", [1.3, 1.0, 1.08])
def test_verdict_on_inverse_ratio_is_mirrored(ratio: float) -> None:
    ratios = spread(ratio, 0.03, 7)
    one, other = of(ratios), of([1 / value for value in ratios])
    mirrored = {"faster": "slower", "alike": "alike", "unclear": "unclear"}
    assert other.kind == mirrored[one.kind]
    assert one.low is not None and one.high is not None
    assert (other.low, other.high) == pytest.approx((1 / one.high, 1 / one.low))
    assert other.more == one.more


@pytest.mark.parametrize(("values", "kind"), [([1.2] * 3, "faster"), ([0.5] * 4, "slower"), ([1.0] * 3, "alike")])
def test_equal_blocks_give_a_clear_verdict(values: list[float], kind: str) -> None:
    assert of(values).kind == kind


def test_a_median_beyond_the_interval_widens_it() -> None:
    """The interval always contains the displayed figure, and so the figure affects the verdict."""
    ratios = [1.2, 1.2, 1.2, 1.2, 1.2, 1.21]
    found = judge(center(ratios), 0.99, 6)
    assert (found.kind, found.ratio, found.low) == ("unclear", 0.99, 0.99)
    assert found.more is not None


@pytest.mark.claim("Under three blocks there is no ratio")
@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_verdict_under_three_blocks_has_no_ratio(blocks: int) -> None:
    expected = Verdict(kind="unclear", blocks=blocks, more=3 - blocks)
    assert compare_pairs([(2.0, 1.0)] * blocks) == expected
    assert judge(center([2.0, 2.0]), 2.0, blocks) == expected


# -- missing blocks -------------------------------------------------------------------------------------------


@pytest.mark.claim("The number of further samples that would tell is right if they spread as before")
@pytest.mark.parametrize(
    ("ratio", "by"), [(1.05, 0.1), (0.95, 0.1), (1.0, 0.1), (1.03, 0.08), (1.2, 0.5), (1.02, 0.05)]
)
@pytest.mark.parametrize("blocks", [3, 5, 10])
def test_further_blocks_needed_are_the_fewest_that_decide(ratio: float, by: float, blocks: int) -> None:
    now = center(spread(ratio, by, blocks))

    def with_more(more: int) -> Verdict:
        error = now.error * sqrt(blocks / (blocks + more))
        return judge(Center(now.log, error, now.degrees + more), exp(now.log), blocks + more)

    found = with_more(0)
    assert found.kind == "unclear"
    assert found.more is not None
    assert 1 <= found.more <= 1_000
    assert with_more(found.more).kind != "unclear"
    assert with_more(found.more - 1).kind == "unclear"


@pytest.mark.claim("The number of further samples that would tell is right if they spread as before")
def test_further_blocks_over_a_thousand_are_not_stated() -> None:
    # The spread with which t = 2.58 standard errors reach 1.02 after this many blocks.
    def at(blocks: int) -> float:
        return log(1.02) * sqrt(blocks) / stats.norm.ppf(0.995)

    near, far, farther = (of(spread(1.02, at(blocks), 5), 0.001) for blocks in (985, 1_010, 1_100))
    assert {near.kind, far.kind, farther.kind} == {"unclear"}
    assert near.more is not None and 960 <= near.more <= 1_000
    assert (far.more, farther.more) == (None, None)
    assert of(spread(1.001, 5.0, 5)).more is None


# -- coverage -------------------------------------------------------------------------------------------------

EXPERIMENTS = 2_000
CHANCE = 3 * sqrt(0.99 * 0.01 / EXPERIMENTS)
COUNTS = (3, 4, 5, 6, 8, 10, 20)
# A margin so wide that the verdict skips the slow search for the number of missing blocks.
WIDE = 1.0


def draws(noise: Noise, count: int, drift: float = 0.0) -> tuple[list[list[float]], list[list[float]]]:
    """Speeds of two equal engines; the machine's drift is the same for both of a block."""
    random = np.random.default_rng([count, 8])
    one, other = (noise.draw(random, (EXPERIMENTS, count)) for _ in range(2))
    machine = np.exp(drift * random.standard_normal((EXPERIMENTS, count)).cumsum(axis=1))
    return (one * machine).tolist(), (other * machine).tolist()


def share_that_covers(found: list[Verdict], truth: float) -> float:
    assert all(verdict.low is not None and verdict.high is not None for verdict in found)
    return float(np.mean([v.low <= truth <= v.high for v in found if v.low is not None and v.high is not None]))


@pytest.mark.claim("The interval of a ratio holds the true ratio 99 times in 100")
@pytest.mark.parametrize("truth", [1.0, 0.4])
@pytest.mark.parametrize("noise", KINDS, ids=lambda noise: noise.name)
@pytest.mark.parametrize("count", COUNTS)
def test_interval_of_paired_ratios_covers_the_truth(noise: Noise, count: int, truth: float) -> None:
    pairs = zip(*draws(noise, count, drift=0.2), strict=True)
    found = [compare_pairs([(truth * a, b) for a, b in zip(mine, base, strict=True)], WIDE) for mine, base in pairs]
    assert share_that_covers(found, truth) >= 0.99 - CHANCE


@pytest.mark.claim("The interval of a ratio holds the true ratio 99 times in 100")
@pytest.mark.parametrize("noise", KINDS, ids=lambda noise: noise.name)
@pytest.mark.parametrize("count", COUNTS)
def test_interval_of_two_run_ratios_covers_the_truth(noise: Noise, count: int) -> None:
    found = [
        judge(compare_unpaired(after, before), float(np.median(after) / np.median(before)), count, WIDE)
        for after, before in zip(*(part[:1_000] for part in draws(noise, count)), strict=True)
    ]
    assert share_that_covers(found, 1.0) >= 0.99 - 3 * sqrt(0.99 * 0.01 / 1_000)


def test_interval_of_unequal_runs_covers_the_truth() -> None:
    random = np.random.default_rng(3)
    before, after = (
        np.exp(0.02 * random.standard_normal((1_000, 4))),
        np.exp(0.1 * random.standard_normal((1_000, 9))),
    )
    found = [
        judge(compare_unpaired(new, old), float(np.median(new) / np.median(old)), 4, WIDE)
        for old, new in zip(before.tolist(), after.tolist(), strict=True)
    ]
    assert share_that_covers(found, 1.0) >= 0.98


@pytest.mark.claim("The interval of a ratio holds the true ratio 99 times in 100")
def test_interval_is_not_wider_than_necessary() -> None:
    for count in COUNTS:
        pairs = zip(*draws(EVEN, count), strict=True)
        found = [compare_pairs(list(zip(mine, base, strict=True)), WIDE) for mine, base in pairs]
        assert abs(share_that_covers(found, 1.0) - 0.99) <= CHANCE


@pytest.mark.parametrize("count", COUNTS)
def test_interval_of_two_equal_modes_covers_the_truth(count: int) -> None:
    """One time in thirty, one engine is in the fast mode and the other in the slow mode in all three blocks."""
    pairs = zip(*draws(HALVES, count), strict=True)
    found = [compare_pairs(list(zip(mine, base, strict=True)), WIDE) for mine, base in pairs]
    assert share_that_covers(found, 1.0) >= (0.965 if count == 3 else 0.99 - CHANCE)


@pytest.mark.parametrize(("spread", "difference"), [(0.05, 0.1), (0.05, 0.03), (0.15, 0.1)])
def test_forecast_samples_show_half_of_such_differences(spread: float, difference: float) -> None:
    number = forecast_samples(spread, difference)
    assert number is not None
    rng = np.random.default_rng(3)
    shown = 0
    for _ in range(400):
        ratios = (1 + difference) * np.exp(rng.normal(0, spread * sqrt(2), number))
        shown += judge(center(ratios.tolist()), float(np.median(ratios)), number).kind == "faster"
    assert 0.4 < shown / 400 < 0.7


def test_forecast_over_a_thousand_samples_is_not_stated() -> None:
    assert forecast_samples(0.5, 0.01) is None
