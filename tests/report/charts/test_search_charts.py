"""Charts of searches: the probes against the limit, and the Pareto front of prices and capacities."""

from __future__ import annotations

import math

import pytest
from searching import LIMIT_S, SHARE, simulated

from dyno.report import charts
from dyno.report.charts import plot
from dyno.stats.costs import Prices, Tariff


def test_probe_charts_have_each_probe_and_the_limit() -> None:
    run = simulated(8, slow=1_000.0, fast=2_000.0)
    by_name = {chart.name: chart for chart in charts.list_charts(run)}
    share, response = by_name["capacity:p90"], by_name["response:p90"]
    probes = [attempt for attempt in run.attempts if attempt.stage is not None]
    for chart in (share, response):
        records = chart.records(run)
        assert sorted(record["x"] for record in records) == sorted(attempt.rate or 0 for attempt in probes)
        picture = plot.draw_chart(run, chart, plot.Choice()).svg()
        assert "<svg" in picture and "the limit" in picture
    # A probe is above the limit if the share of M/M/1 is.
    for record in share.records(run):
        mu = {"slow": 1_000, "fast": 2_000}[record["engine"]]
        expected = 100 * math.exp(-max(mu - record["x"], 0) * LIMIT_S)
        if abs(math.log(expected / (100 * SHARE))) > 0.5:
            assert (record["y"] > 100 * SHARE) == (expected > 100 * SHARE)


@pytest.mark.parametrize(
    ("fees", "front"),
    [
        ((0.0, 0.0, 0.0), {"fast"}),
        # The slow engine is cheaper by its fee; the middle one is dearer than both.
        ((0.0, 900.0, 500.0), {"fast", "slow"}),
        ((0.0, 100.0, 500.0), {"fast", "middle", "slow"}),
    ],
)
def test_pareto_front_has_only_undominated_engines(fees: tuple[float, float, float], front: set[str]) -> None:
    run = simulated(9, slow=1_000.0, middle=1_500.0, fast=2_000.0)
    tariffs = {f"synthetic:wait_us={at + 1}": Tariff(fee, 0.0, {}) for at, fee in enumerate(fees)}
    prices = Prices("p.toml", "EUR", None, 1.0, tariffs, {}, 500.0)
    (chart,) = (chart for chart in charts.list_charts(run, prices=prices) if chart.name == "cost")
    records = chart.records(run)
    assert {record["engine"] for record in records if record["front"]} == front
    assert [record["y"] for record in sorted(records, key=lambda record: record["x"])] == list(fees)
    assert "<svg" in plot.draw_chart(run, chart, plot.Choice()).svg()
