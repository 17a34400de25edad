"""How throughput grows with clients, on a terminal: a line for each engine."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from dyno.report.tables import sweeps
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats.machine import cores
from dyno.stats.scaling import KNEE, Scaling, scalings

MOST_LINES = 24


def render(run: Run, console: Console) -> None:
    """Nothing for a run without several numbers of clients, one among them."""
    found = list(scalings(run))
    if not found:
        return
    there = cores(run.header.get("host", {}))
    beside = "" if there is None else f", on {there:g} cores"
    console.print()
    console.print(Text(f"What more clients do, of what one does{beside}", "bold"))
    changing = [name for name in varying(run) if name != "clients"]
    for each in found[:MOST_LINES]:
        console.print(Text(f"  {sweeps.where(each.sweep, changing)}: {sentence(each)}"), soft_wrap=True)
    if len(found) > MOST_LINES:
        console.print(Text(f"  and {len(found) - MOST_LINES} more", "dim"))
    console.print(Text(f"  knee: the fewest clients that reach {KNEE:.0%} of the highest throughput", "dim"))


def sentence(found: Scaling) -> str:
    """'lmdb: 2 do × 1.97 (99% each), 4 do × 2.01 (50% each); knee at 2'."""
    steps = [f"{n} do × {times:.2f} ({times / n:.0%} each)" for n, times in found.points if n > 1]
    knee = f"knee at {found.knee}" if found.flat else f"no knee up to {found.knee}"
    return f"{found.cell.label}: {', '.join(steps)}; {knee}"
