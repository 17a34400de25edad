"""A published table of several phases a line, and ours beside it. No ratio of the two is drawn: they are of different
machines."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dyno.published import Experiment, PublishedLine
from dyno.report import units, wide
from dyno.report.table import groups
from dyno.results import Run

BETWEEN = "│"


def render(experiment: Experiment, run: Run, console: Console) -> None:
    """What names a line, the published figures, and this run's by the same titles: medians over trials."""
    found = [(own, line) for own in wide.tables(run, groups(run)) for line in own.lines]
    names = list(experiment.lines[0].params)
    figures = list(experiment.lines[0].figures)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, no_wrap=True)
    for head in (*figures, BETWEEN, *figures):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column(wide.REMARKS, style="yellow")
    for published in experiment.lines:
        theirs = [str(value) for value in published.params.values()] + [_text(v) for v in published.figures.values()]
        ours = next(((own, line) for own, line in found if _is(line, published)), None)
        if ours is None:
            table.add_row(*theirs, BETWEEN, *[units.UNKNOWN] * len(figures), "not measured")
            continue
        own, line = ours
        texts = dict(zip(own.heads, line.cells, strict=True))
        mine = [texts.get(head, units.UNKNOWN) for head in figures]
        table.add_row(*theirs, BETWEEN, *mine, ", ".join(line.remarks))
    console.print(Text(f"Left of {BETWEEN} what was published, right of it this run", "dim"))
    console.print()
    console.print(table)


def _is(line: wide.Line, published: PublishedLine) -> bool:
    return all(line.cell.params.get(name) == value for name, value in published.params.items())


def _text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return units.count(value) if isinstance(value, int) else f"{value:.2f}" if value < 10 else units.rate(value)
