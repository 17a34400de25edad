"""The charts of a run, in the order in which a page shows them."""

from collections.abc import Sequence
from dataclasses import replace

from dyno.report.charts import bars, flame, latency, lines, searches, versions
from dyno.report.charts.chart import Chart
from dyno.results import Run
from dyno.stats.costs import Prices
from dyno.stats.summary import group_values

FIXED: tuple[Chart, ...] = (
    bars.THROUGHPUT,
    bars.RATIOS,
    versions.VERSIONS,
    bars.ACCOUNT,
    flame.FLAME,
    flame.DIFFERENCE,
    latency.LATENCY,
    bars.PARTS,
    latency.SERIES,
    bars.SIZE,
)
"""Charts that any run may have."""


def list_charts(run: Run, by: str | None = None, prices: Prices | None = None) -> list[Chart]:
    """Returns the charts of a search; the fixed charts, a sweep for each numeric parameter with several values, and
    the suite's own charts. `by`: the metric or fact that sweeps show. Raises UsageError if it is unknown."""
    sweeps = [lines.sweep(run, name.removeprefix(lines.PREFIX), by) for name in lines.names(run)]
    if prices is not None and prices.load is not None and run.limits:
        priced = [searches.cost(run, prices)]
    else:
        priced = []
    return [*searches.charts(run), *priced, *FIXED[:-1], *sweeps, FIXED[-1], *lines.curves(run)]


def of_runs(runs: Sequence[Run], prices: Prices | None = None) -> list[list[Chart]]:
    """Returns the charts of each run, with those that compare it with the first one. If charts of two suites have the
    same name, the suite's name is prefixed."""
    declared = ((chart.name, run.plan.suite) for run in runs for chart in run.header.charts or ())
    suites = {name: set(of) for name, of in group_values(declared).items()}
    return [
        [
            replace(chart, name=f"{run.plan.suite}:{chart.name}") if len(suites.get(chart.name, ())) > 1 else chart
            for chart in [*list_charts(run, prices=prices), *_compare_with_first(runs, run)]
        ]
        for run in runs
    ]


def _compare_with_first(runs: Sequence[Run], run: Run) -> list[Chart]:
    first = runs[0]
    if run is first or run.plan.suite != first.plan.suite:
        return []
    return [flame.compare_with(first)]
