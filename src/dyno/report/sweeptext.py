"""Sweeps on a terminal: a line for each engine, a column for each value, and from where on another is the faster."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dyno.report import sweeps
from dyno.results import Run

MOST_TABLES, MOST_LINES = 6, 8
MORE = "`dyno plot RUN --chart NAME` and `dyno report RUN` have all of them"


def render(run: Run, console: Console) -> None:
    """Nothing for a run without a numeric parameter of several values."""
    found = sweeps.told(run)
    for each in found[:MOST_TABLES]:
        console.print()
        console.print(Text(each.title, "bold"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for at, head in enumerate(each.heads):
            table.add_column(head, justify="right" if at else "left", no_wrap=True)
        for line in each.lines:
            table.add_row(*line)
        console.print(table)
        for crossing in each.crossings[:MOST_LINES]:
            console.print(Text(f"  {sweeps.sentence(crossing)}"), soft_wrap=True)
        if len(each.crossings) > MOST_LINES:
            console.print(Text(f"  and {len(each.crossings) - MOST_LINES} more crossings", "dim"))
    if len(found) > MOST_TABLES:
        console.print(Text(f"\n{len(found) - MOST_TABLES} more sweeps: {MORE}", "dim"))
