"""The parts of a published latency and of ours, side by side. No ratio of the two is drawn."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from dyno.published import Experiment
from dyno.report import units
from dyno.results import Run
from dyno.stats.summary import summarize


def render(experiment: Experiment, run: Run, console: Console) -> None:
    """A line for each part: what was published, and the medians of ours."""
    rows = [row for row in summarize(run) if not row.cell.floor and row.valid]
    for phase, published in experiment.parts.items():
        ours = [row for row in rows if row.phase == phase]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(phase, no_wrap=True)
        for head in ("published", *(f"│ {row.cell.asked}, p50" for row in ours)):
            table.add_column(head, justify="right")
        for part, seconds in published.items():
            told = [units.duration((row.latency_by_part_ns.get(part) or {}).get("p50")) for row in ours]
            table.add_row(part, units.duration(seconds * 1e9), *told)
        whole = units.duration(sum(published.values()) * 1e9)
        table.add_row("all", whole, *(units.duration(row.latency_ns["p50"]) for row in ours))
        console.print()
        console.print(table)
