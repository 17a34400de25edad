"""The charts of a run, in the order in which a page shows them. A chart, or a kind of them, is a module here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyno.report.charts import curve, latency, parts, ratios, series, size, sweep, throughput
from dyno.report.charts.chart import Chart
from dyno.results import Run

FIXED: tuple[Chart, ...] = (throughput.CHART, ratios.CHART, latency.CHART, parts.CHART, series.CHART, size.CHART)
"""Those that any run may have."""


def of(run: Run, by: str | None = None) -> list[Chart]:
    """Those, a sweep for each numeric parameter with several values, and those of the run's suite. `by`: the metric
    or the fact of the sweeps. Raises UsageError for one that there is not."""
    sweeps = [sweep.chart(run, name.removeprefix(sweep.PREFIX), by) for name in sweep.names(run)]
    return [*FIXED[:-1], *sweeps, FIXED[-1], *curve.charts(run)]


def of_runs(runs: Sequence[Run]) -> list[list[Chart]]:
    """Of each run; charts of several suites that are called the same have their suite before their names."""
    found = [of(run) for run in runs]
    known: dict[str, set[str]] = {}
    for run in runs:
        for told in run.header.get("charts") or ():
            known.setdefault(told["name"], set()).add(run.plan["suite"])
    several = {name for name, suites in known.items() if len(suites) > 1}
    return [
        [replace(c, name=f"{run.plan['suite']}:{c.name}") if c.name in several else c for c in charts]
        for run, charts in zip(runs, found, strict=True)
    ]
