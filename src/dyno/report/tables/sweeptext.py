"""Sweeps on a terminal: a line for each engine, a column for each value, from where on another is the faster, and
where one goes no further."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from dyno.report.tables import display_limits, grid, sweeps
from dyno.results import Run

MOST_TABLES, MOST_LINES = 8, 8
MORE = "`dyno report RUN` has all of them"


def render(run: Run, console: Console) -> None:
    """Nothing for a run without a numeric parameter of several values."""
    found = sweeps.every(run)
    for sweep in found[:MOST_TABLES]:
        each = sweeps.told(run, sweep)
        console.print()
        console.print(Text(each.title, "bold"))
        lines, rest = display_limits.first(each.lines, display_limits.ROWS, "engines", MORE)
        grid.render([grid.Column(head, left=not at) for at, head in enumerate(each.heads)], lines, console)
        if rest:
            console.print(Text(f"  {rest}", "dim"))
        for crossing in each.crossings[:MOST_LINES]:
            console.print(Text(f"  {sweeps.sentence(crossing)}"), soft_wrap=True)
        if len(each.crossings) > MOST_LINES:
            console.print(Text(f"  and {len(each.crossings) - MOST_LINES} more crossings", "dim"))
        for end in each.ends[:MOST_LINES]:
            console.print(Text(f"  {sweeps.ending(end)}"), soft_wrap=True)
        if len(each.ends) > MOST_LINES:
            console.print(Text(f"  and {len(each.ends) - MOST_LINES} more that go no further", "dim"))
    if len(found) > MOST_TABLES:
        console.print(Text(f"\n{len(found) - MOST_TABLES} more sweeps: {MORE}", "dim"))
