"""Published tables by the values of a parameter, and ours: one for each phase, in each column the published figure on
the left of ours."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from dyno.published import Curves, PublishedCurve
from dyno.report.tables import grid, units
from dyno.report.tables.sweeps import number
from dyno.results import Run
from dyno.stats.metric import estimated, metric
from dyno.stats.summary import CellSummary, summarize

NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Of the units that figures may be published in: ours are written as theirs are."""
Row = tuple[str, str, object]


def render(curves: Curves, run: Run, console: Console) -> None:
    """Nothing is drawn where neither has a figure."""
    ours: dict[Row, CellSummary] = {
        (row.cell.asked, row.phase, row.cell.params.get(curves.parameter)): row for row in summarize(run)
    }
    by = metric(curves.metric)
    console.print(Text(f"\npublished │ ours, {by.title}, in {curves.unit}", "dim"))
    for phase in dict.fromkeys(row.phase for row in curves.rows):
        columns = [row for row in curves.rows if row.phase == phase]
        cells = [[_cell(column, at, value, ours, curves) for column in columns] for at, value in enumerate(curves.at)]
        rows = [(number(value), *row) for value, row in zip(curves.at, cells, strict=True) if any(row)]
        console.print(Text(f"\n{phase}", "bold"))
        heads = [curves.parameter, *(column.published_as for column in columns)]
        grid.render([grid.Column(head) for head in heads], rows, console)


def _cell(column: PublishedCurve, at: int, value: float, ours: Mapping[Row, CellSummary], curves: Curves) -> str:
    there = f"{column.values[at]:g}" if at < len(column.values) else ""
    row = ours.get((column.engine, column.phase, value))
    if row is None:
        here = ""
    elif row.valid and (found := estimated(row, metric(curves.metric))) is not None:
        here = f"{found.median / NS[curves.unit]:.3g}"
    else:
        here = (row.why or units.UNKNOWN).split(":", 1)[0]
    return f"{there} │ {here}" if there or here else ""
