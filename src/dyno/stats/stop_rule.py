"""Decides when a run has enough samples: each interval is as narrow as requested.

Checking after each block, and stopping at a lucky one, costs some confidence; from six blocks on little, as
`benchmarks/certainty.py` shows.
"""

from __future__ import annotations

from dyno.results import Run
from dyno.stats.summary import CellSummary, summarize

FLOOR_REACH = 0.25
"""How far the interval of a null engine may reach: nothing is ranked against it, and all engines are far slower."""


def wanting(run: Run, until: float) -> str | None:
    """The row with the widest interval, in words; None if each is narrow enough. Null engines and rows without a
    number don't count."""
    rows = [row for row in summarize(run) if row.valid and not row.cell.floor]
    wide = max(rows, key=_reach, default=None)
    if wide is None or _reach(wide) <= until:
        return None
    reach = None if wide.throughput is None else wide.throughput.reach
    text = "too few samples" if reach is None else f"±{reach * 100:.1f} %"
    return f"{wide.cell.asked} in {wide.phase}: {text}, wanted ±{until * 100:g} %"


def unsure(run: Run) -> set[int]:
    """Numbers of the null engines' cells whose interval is so wide that they need another trial."""
    wide = [row.cell for row in summarize(run) if row.valid and row.cell.floor and _reach(row) > FLOOR_REACH]
    return {at for at, cell in enumerate(run.cells) if any(cell is one for one in wide)}


def _reach(row: CellSummary) -> float:
    reach = None if row.throughput is None else row.throughput.reach
    return float("inf") if reach is None else reach
