"""A suite's own table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from dyno.report import grid, places
from dyno.report.grid import GAP
from dyno.report.wide import REMARKS, Wide

REMARKS_MIN = 18


def render(found: Sequence[Wide], console: Console) -> None:
    """A table for each tier, with the floor under it."""
    for wide in found:
        console.print()
        if wide.title:
            console.print(Text(wide.title, "bold"))
        if wide.tier is not None:
            console.print(Text.assemble((places.tier(wide.tier), "bold"), f": {wide.tier.meaning}"))
        _table(wide, console)
        if wide.floor:
            console.print(Text(wide.floor, "dim"))


def _table(wide: Wide, console: Console) -> None:
    widths = {
        head: max(len(head), *(len(line.cells[at]) for line in wide.lines)) for at, head in enumerate(wide.heads)
    }
    remarked = any(line.remarks for line in wide.lines)
    for head in wide.dispensable:
        if sum(width + GAP for width in widths.values()) + (REMARKS_MIN if remarked else 0) <= console.width:
            break
        widths.pop(head)
    columns = [grid.Column(head, head in wide.words, width) for head, width in widths.items()]
    if remarked:
        columns.append(grid.Column(REMARKS, left=True, folds=True, style="yellow"))
    rows = []
    for line in wide.lines:
        cells = [cell for head, cell in zip(wide.heads, line.cells, strict=True) if head in widths]
        rows.append([*cells, *([", ".join(line.remarks)] if remarked else [])])
    grid.render(columns, rows, console, ["" if line.valid else "red" for line in wide.lines])
