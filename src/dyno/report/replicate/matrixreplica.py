"""A published table of one figure by two things, as it was printed, and the same figure of ours under it. No ratio of
the two is drawn."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from dyno.published import Matrix
from dyno.report.tables import grid, units
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats.summary import summarize


def render(matrix: Matrix, run: Run, console: Console) -> None:
    console.print()
    console.print(Text(f"{matrix.title}, published", "bold"))
    grid.render(
        [grid.Column(head, left=not at) for at, head in enumerate(("", *matrix.heads))], matrix.lines, console
    )
    console.print()
    console.print(Text(f"{matrix.title}, here: {matrix.part} of {matrix.phase}", "bold"))
    changing = varying(run)
    rows = []
    for row in summarize(run):
        if row.phase == matrix.phase and row.valid and not row.cell.floor:
            told = row.latency_by_part_ns.get(matrix.part) or {}
            params = units.params({name: row.cell.params[name] for name in changing})
            rows.append((row.cell.asked, params, *(units.duration(told.get(name)) for name in ("p50", "p99"))))
    keys = [grid.Column(head, left=True, key=True) for head in ("engine", "parameters")]
    grid.render([*keys, grid.Column("p50"), grid.Column("p99")], rows, console)
