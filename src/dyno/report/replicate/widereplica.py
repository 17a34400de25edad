"""A published table of several phases a line, and ours beside it. No ratio of the two is drawn: they are of different
machines."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from dyno.published import Experiment, PublishedLine
from dyno.report.tables import grid, units, wide
from dyno.report.tables.table import groups
from dyno.results import Run

BETWEEN = "│"


def render(experiment: Experiment, run: Run, console: Console) -> None:
    """What names a line, the published figures, and this run's by the same titles: medians over trials."""
    found = [(own, line) for own in wide.tables(run, groups(run)) for line in own.lines]
    names = list(experiment.lines[0].params)
    figures = list(experiment.lines[0].figures)
    columns = [
        *(grid.Column(name, left=True, key=True) for name in names),
        *map(grid.Column, (*figures, BETWEEN, *figures)),
        grid.Column(wide.REMARKS, left=True, folds=True, style="yellow"),
    ]
    rows = list[list[str]]()
    for published in experiment.lines:
        theirs = [str(value) for value in published.params.values()] + [_text(v) for v in published.figures.values()]
        ours = next(((own, line) for own, line in found if _is(line, published)), None)
        if ours is None:
            rows.append([*theirs, BETWEEN, *[units.UNKNOWN] * len(figures), "not measured"])
            continue
        own, line = ours
        texts = dict(zip(own.heads, line.cells, strict=True))
        mine = [texts.get(head, units.UNKNOWN) for head in figures]
        rows.append([*theirs, BETWEEN, *mine, ", ".join(line.remarks)])
    console.print(Text(f"Left of {BETWEEN} what was published, right of it this run", "dim"))
    console.print()
    grid.render(columns, rows, console)


def _is(line: wide.Line, published: PublishedLine) -> bool:
    return all(line.cell.params.get(name) == value for name, value in published.params.items())


def _text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return units.count(value) if isinstance(value, int) else f"{value:.2f}" if value < 10 else units.rate(value)
