"""A published table of one figure by two things, as it was printed, and the same figure of ours under it. No ratio of
the two is drawn."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dyno.published import Matrix
from dyno.report import units
from dyno.report.table import varying
from dyno.results import Run
from dyno.stats.summary import summarize


def render(matrix: Matrix, run: Run, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for at, head in enumerate(("", *matrix.heads)):
        table.add_column(head, justify="right" if at else "left", no_wrap=True)
    for line in matrix.lines:
        table.add_row(*line)
    console.print()
    console.print(Text(f"{matrix.title}, published", "bold"))
    console.print(table)
    console.print()
    console.print(Text(f"{matrix.title}, here: {matrix.part} of {matrix.phase}", "bold"))
    changing = varying(run)
    ours = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("engine", "parameters", "p50", "p99"):
        ours.add_column(head, justify="right" if head.startswith("p9") or head == "p50" else "left", no_wrap=True)
    for row in summarize(run):
        if row.phase == matrix.phase and row.valid and not row.cell.floor:
            told = row.latency_by_part_ns.get(matrix.part) or {}
            params = units.params({name: row.cell.params[name] for name in changing})
            ours.add_row(row.cell.asked, params, *(units.duration(told.get(name)) for name in ("p50", "p99")))
    console.print(ours)
