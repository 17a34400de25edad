"""A suite's own table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid, row_titles
from dyno.report.tables.wide import REMARKS, Wide


def render(found: Sequence[Wide], console: Console) -> None:
    """A table for each tier, with the floor under it."""
    for wide in found:
        console.print()
        if wide.title:
            console.print(Text(wide.title, "bold"))
        if wide.tier is not None:
            console.print(Text.assemble((row_titles.tier(wide.tier), "bold"), f": {wide.tier.meaning}"))
        _table(wide, console)
        if wide.floor:
            console.print(Text(wide.floor, "dim"))


def _table(wide: Wide, console: Console) -> None:
    remarked = any(line.remarks for line in wide.lines)
    columns = [grid.Column(head, head in wide.words, key=head in wide.keys) for head in wide.heads]
    if remarked:
        columns.append(grid.Column(REMARKS, left=True, folds=True, style="yellow"))
    rows = []
    for line in wide.lines:
        rows.append([*line.cells, *([", ".join(line.remarks)] if remarked else [])])
    grid.render(columns, rows, console, ["" if line.valid else "red" for line in wide.lines])
