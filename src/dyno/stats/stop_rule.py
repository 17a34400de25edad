"""When a run has samples enough: each interval is as narrow as was asked for.

Looking again after each block, and stopping at a lucky one, costs some of the confidence: `benchmarks/certainty.py`
prints how much. It is little from six blocks on.
"""

from __future__ import annotations

from dyno.results import Run
from dyno.stats.estimate import Estimate
from dyno.stats.summary import CellSummary, summarize

FLOOR_REACH = 0.25
"""How far the interval of a null engine may reach: nothing is ranked against it, and it is far from all else."""


def reach(found: Estimate | None) -> float | None:
    """How far the interval reaches from the median, as a share of it; None without an interval."""
    if found is None or found.low is None or found.high is None or not found.median:
        return None
    return max(found.high - found.median, found.median - found.low) / found.median


def wanting(run: Run, until: float) -> str | None:
    """The row whose interval is the widest, in words; None where each is narrow enough.

    Null engines are not waited for, nor are rows that have no number.
    """
    rows = [row for row in summarize(run) if row.valid and not row.cell.floor]
    wide = max(rows, key=_reach, default=None)
    if wide is None or _reach(wide) <= until:
        return None
    found = reach(wide.throughput)
    told = "too few samples" if found is None else f"±{found * 100:.1f} %"
    return f"{wide.cell.asked} in {wide.phase}: {told}, wanted ±{until * 100:g} %"


def unsure(run: Run) -> set[int]:
    """The null engines' cells, by number, of which an interval is so wide that another trial is worth its time."""
    wide = [row.cell for row in summarize(run) if row.valid and row.cell.floor and _reach(row) > FLOOR_REACH]
    return {at for at, cell in enumerate(run.cells) if any(cell is one for one in wide)}


def _reach(row: CellSummary) -> float:
    found = reach(row.throughput)
    return float("inf") if found is None else found
