"""Costs are unknown if a fact is missing, negative or too large for a float."""

from __future__ import annotations

from dataclasses import replace

import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells

from dyno.stats.costs import Prices, Tariff, costs

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
def test_a_cost_is_of_amounts_that_there_are(
    facts: dict[str, object], million: float | None, month: float | None
) -> None:
    told = {"served": 1, "requests": 2, "sent_bytes": 5_000, "kept_bytes": 4e9, **facts}
    sample = replace(a_sample(), facts=told)
    run = of_cells(a_cell("s3"), attempts=(an_attempt(0, sample),))
    found = [cost for cost in costs(run, Prices("p.toml", "", None, 10.0, {"s3": TARIFF})) if cost.row.facts]
    assert [(cost.million, cost.month) for cost in found] == [
        (None if million is None else pytest.approx(million), None if month is None else pytest.approx(month))
    ]
