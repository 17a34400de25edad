"""Runs from many places as one table: where from, where to, part by part. A place is called as its run file is.

Medians of single operations, over all trials. A pure function of run files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from dyno.contracts.model import UsageError
from dyno.report.tables import grid, units
from dyno.results import Run
from dyno.stats.summary import CellSummary, summarize


@dataclass(frozen=True)
class Line:
    """A row of a run at its place."""

    place: str
    row: CellSummary
    beside: str
    """What else it is of, where its run has several: its phase, and parameters of which there are several values."""


def render(runs: Sequence[Run], console: Console) -> None:
    """Raises UsageError where no operation of any run tells its parts."""
    lines = [line for run in runs for line in _lines(run)]
    told = {part for line in lines for part in line.row.latency_by_part_ns}
    # In the suite's order, of which a row may have some.
    parts = [part for part in dict.fromkeys(part for line in lines for part in line.row.about.parts) if part in told]
    if not parts:
        raise UsageError("no latency of these runs has parts: --by place wants runs whose operations tell them")
    beside = any(line.beside for line in lines)
    heads = ["from", "to", *(["of"] if beside else []), *parts, "total p50", "p99", "trials"]
    words = 3 if beside else 2
    columns = [grid.Column(head, left=at < words, key=at < words) for at, head in enumerate(heads)]
    grid.render(columns, [_cells(line, parts, beside) for line in lines], console)
    console.print(Text("medians of single operations, over all trials", "dim"))
    _matrix(lines, console)


def _lines(run: Run) -> list[Line]:
    place = run.path.stem
    rows = [row for row in summarize(run) if not row.cell.floor]
    several = {name for row in rows for name, value in row.cell.params.items() if value != rows[0].cell.params[name]}
    phases = len({row.phase for row in rows}) > 1
    found = []
    for row in rows:
        params = units.params({name: row.cell.params[name] for name in row.cell.params if name in several})
        found.append(Line(place, row, " ".join(filter(None, [row.phase if phases else "", params]))))
    return found


def _cells(line: Line, parts: Sequence[str], beside: bool) -> list[str]:
    row = line.row
    told = [units.duration((row.latency_by_part_ns.get(part) or {}).get("p50")) for part in parts]
    whole = [units.duration(row.latency_ns[name]) for name in ("p50", "p99")] if row.valid else [row.why or "", ""]
    return [line.place, row.cell.label, *([line.beside] if beside else []), *told, *whole, str(len(row.samples))]


def _matrix(lines: Sequence[Line], console: Console) -> None:
    """The whole latency alone: a line for each place, a column for what was asked there. Of each thing apart."""
    for beside in dict.fromkeys(line.beside for line in lines):
        of = [line for line in lines if line.beside == beside]
        places = list(dict.fromkeys(line.place for line in of))
        asked = list(dict.fromkeys(line.row.cell.label for line in of))
        if len(places) < 2:
            continue
        console.print()
        console.print(Text(f"{beside or of[0].row.phase}: p50, from the left to the top", "bold"))
        known = {(line.place, line.row.cell.label): line.row.latency_ns["p50"] for line in of if line.row.valid}
        cells = [[place, *(units.duration(known.get((place, to))) for to in asked)] for place in places]
        grid.render([grid.Column(head, left=not at) for at, head in enumerate(["", *asked])], cells, console)
