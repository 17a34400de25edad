"""The parts of a published latency and of ours, side by side. No ratio of the two is drawn."""

from __future__ import annotations

from rich.console import Console

from dyno.published import Experiment
from dyno.report.tables import grid, units
from dyno.results import Run
from dyno.stats.summary import summarize


def render(experiment: Experiment, run: Run, console: Console) -> None:
    """A line for each part: what was published, and the medians of ours."""
    rows = [row for row in summarize(run) if not row.cell.floor and row.valid]
    for phase, published in experiment.parts.items():
        ours = [row for row in rows if row.phase == phase]
        table = []
        for part, seconds in published.items():
            told = [units.duration((row.latency_by_part_ns.get(part) or {}).get("p50")) for row in ours]
            table.append((part, units.duration(seconds * 1e9), *told))
        whole = units.duration(sum(published.values()) * 1e9)
        table.append(("all", whole, *(units.duration(row.latency_ns["p50"]) for row in ours)))
        console.print()
        heads = ("published", *(f"│ {row.cell.asked}, p50" for row in ours))
        grid.render([grid.Column(phase, left=True), *map(grid.Column, heads)], table, console)
