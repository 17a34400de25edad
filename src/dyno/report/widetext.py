"""A suite's own table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dyno.report import places
from dyno.report.wide import REMARKS, Wide

GAP = 2
REMARKS_MIN = 18


def render(found: Sequence[Wide], console: Console) -> None:
    """A table for each tier, with the floor under it."""
    for wide in found:
        console.print()
        if wide.tier is not None:
            console.print(Text.assemble((places.tier(wide.tier), "bold"), f": {wide.tier.meaning}"))
        console.print(_table(wide, console.width))
        if wide.floor:
            console.print(Text(wide.floor, "dim"))


def _table(wide: Wide, room: int) -> Table:
    widths = {
        head: max(len(head), *(len(line.cells[at]) for line in wide.lines)) for at, head in enumerate(wide.heads)
    }
    remarked = any(line.remarks for line in wide.lines)
    for head in wide.dispensable:
        if sum(width + GAP for width in widths.values()) + (REMARKS_MIN if remarked else 0) <= room:
            break
        widths.pop(head)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for head, width in widths.items():
        table.add_column(head, justify="left" if head in wide.words else "right", min_width=width, no_wrap=True)
    if remarked:
        table.add_column(REMARKS, style="yellow")
    for line in wide.lines:
        cells = [cell for head, cell in zip(wide.heads, line.cells, strict=True) if head in widths]
        table.add_row(*cells, *([", ".join(line.remarks)] if remarked else []), style="" if line.valid else "red")
    return table
