"""Costs are unknown if a fact is missing, negative or too large for a float."""

from __future__ import annotations

from dataclasses import replace

import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells

from dyno.contracts.decoded_types import Fact
from dyno.stats.capacity import Capacity
from dyno.stats.costs import Cost, Prices, Tariff, _cost, costs
from dyno.stats.estimate import Estimate
from dyno.stats.searched import Searched
from dyno.stats.summary import summarize

TARIFF = Tariff(60.0, 0.5, {"requests": 2.0, "sent_bytes": 3.0})


@pytest.mark.parametrize(
    ("facts", "million", "month"),
    [
        ({}, 2.0 * 2 + 3.0 * 5_000 * 1e-3, 60 + 0.5 * 4 + 10 * (4.0 + 15.0)),
        ({"kept_bytes": None}, 19.0, None),
        ({"kept_bytes": -1}, 19.0, None),
        ({"requests": -2}, None, None),
        ({"requests": "many"}, None, None),
        ({"served": 0}, None, None),
        ({"served": -1}, None, None),
        ({"requests": 1e300, "served": 1e-300}, None, None),
    ],
)
def test_cost_is_computed_only_from_valid_amounts(
    facts: dict[str, Fact], million: float | None, month: float | None
) -> None:
    amounts: dict[str, Fact] = {"served": 1, "requests": 2, "sent_bytes": 5_000, "kept_bytes": 4e9, **facts}
    sample = replace(a_sample(), facts=amounts)
    run = of_cells(a_cell("s3"), attempts=(an_attempt(0, sample),))
    found = [cost for cost in costs(run, Prices("p.toml", "", None, 10.0, {"s3": TARIFF})) if cost.row.facts]
    assert [(cost.million, cost.month) for cost in found] == [
        (None if million is None else pytest.approx(million), None if month is None else pytest.approx(month))
    ]


def priced(capacity: Estimate | None, load: float, headroom: float, hour: float) -> Cost:
    (row,) = summarize(of_cells(a_cell(), attempts=(an_attempt(0, a_sample()),), samples=1))[1:]
    search = Searched(Capacity("found"), 1e5, (), (), None, wall_s=1.0, forecast_s=1.0, bound_s=None, lost=())
    row = replace(row, throughput=capacity, searched=search)
    return _cost(row, None, hour, Prices("p.toml", "USD", None, 1.0, {}, {}, load, headroom))


@pytest.mark.parametrize(
    ("capacity", "load", "headroom", "hour", "machines", "million", "month", "most"),
    [
        # By hand: 30,000 / (12,000 * 0.7) = 3.57, so 4; 2 at a high end of 22,000 and 3 at a low end of 20,000.
        (Estimate(12_000, 11_900, 12_100), 30_000, 0.3, 0.5, (4, 4), 4 * 0.5 / 3600 / 30_000 * 1e6, 1_460, 1_460),
        (Estimate(21_000, 20_000, 22_000), 30_000, 0.3, 0.5, (2, 3), 2 * 0.5 / 3600 / 30_000 * 1e6, 730, 1_095),
        # Exactly two machines, a border.
        (Estimate(10_000, 10_000, 10_000), 20_000, 0.0, 1.0, (2, 2), 2 / 3600 / 20_000 * 1e6, 1_460, 1_460),
        (Estimate(10_000, 9_999, 10_001), 20_000, 0.0, 1.0, (2, 3), 2 / 3600 / 20_000 * 1e6, 1_460, 2_190),
        # Only the low end is known.
        (Estimate(10_000, None, None), 5_000, 0.0, 1.0, (1, 1), 1 / 3600 / 5_000 * 1e6, 730, 730),
        (Estimate(10_000, 9_000, 11_000), 20_000, 0.0, 0.0, (2, 3), 0, 0, 0),
        (Estimate(10_000, 10_000, 10_000), 20_000, 0.0, 1e15, (2, 2), 2e15 / 3600 / 20_000 * 1e6, 1.46e18, 1.46e18),
        (None, 20_000, 0.0, 1.0, None, None, None, None),
    ],
)
def test_machine_count_range_follows_the_capacity_interval(
    capacity: Estimate | None,
    load: float,
    headroom: float,
    hour: float,
    machines: tuple[int, int] | None,
    million: float | None,
    month: float | None,
    most: float | None,
) -> None:
    cost = priced(capacity, load, headroom, hour)
    assert cost.machines == machines
    for found, expected in ((cost.million, million), (cost.month, month), (cost.month_most, most)):
        assert found == (None if expected is None else pytest.approx(expected))


def test_closed_loop_throughput_has_no_load_cost() -> None:
    row = summarize(of_cells(a_cell(), attempts=(an_attempt(0, a_sample()),), samples=1))[1]
    cost = _cost(row, None, 1.0, Prices("p.toml", "USD", None, 1.0, {}, {}, 1_000.0))
    assert (cost.machines, cost.million, cost.month) == (None, None, None)
