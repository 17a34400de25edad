"""The run as one table for each tier: a line for each engine, a column for each phase, who leads and what is doubted.
The doubts themselves stand in the tables by phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from dyno.report.tables import display_limits, grid, row_titles, units
from dyno.report.tables.overview import Figure, Line, Overview, overviews, rankings
from dyno.report.tables.table import groups
from dyno.results import Run
from dyno.stats.verdict import FEWEST_BLOCKS

LEADS, DOUBTED = "*", "?"
MEANING = {
    LEADS: f"{LEADS} the fastest, or not shown to be slower than it",
    DOUBTED: f"{DOUBTED} something speaks against the figure",
}
BEST = "bold green"


def render(run: Run, console: Console) -> None:
    """The tables, and what their marks mean. Null engines are in none."""
    found = groups(run)
    views, rest = overviews(run, found, rankings(run))
    names = called(run)
    seen = set[str]()
    told = run.blocks >= FEWEST_BLOCKS
    for tier, mine in groupby(views, key=lambda view: view.tier):
        console.print()
        if tier is not None:
            console.print(Text(row_titles.plain(tier), "bold"))
        here = list(mine)
        if empty := dict.fromkeys(engine for view in here if view.empty for engine in view.engines):
            console.print(Text(f"Nothing was measured of {display_limits.listed(list(empty))}."), soft_wrap=True)
        for alike in _alike([view for view in here if not view.empty]):
            seen |= _table(alike, names, told, console)
    marks = "; ".join(text for mark, text in MEANING.items() if mark in seen)
    also = ", ".join(
        f"{alias} is {name}" for name, alias in names.items() if name != alias and name in run.plan["phases"]
    )
    for line in (rest, marks, also and f"In the other tables {also}"):
        if line:
            console.print(Text(line, "dim"))


def called(run: Run) -> dict[str, str]:
    """What phases are called, where that is not their name."""
    declared = run.header.get("phases") or []
    return {phase["name"]: phase["alias"] for phase in declared if phase.get("alias")}


def _alike(views: Sequence[Overview]) -> Iterator[list[Overview]]:
    """Those that stand in one table: the same phases, in the same units."""
    for _, alike in groupby(views, key=lambda view: [(line.phase, line.unit) for line in view.lines]):
        yield list(alike)


def _table(views: Sequence[Overview], names: dict[str, str], told: bool, console: Console) -> set[str]:
    """Prints it and returns the marks that are in it. `told`: whether there are blocks enough to say who leads."""
    heads = [_called(line, names) for line in views[0].lines]
    units_ = [line.unit for line in views[0].lines]
    params = any(view.params for view in views)
    first = ["engine", "parameters"] if params else ["engine"]
    rows, leading = [], list[str]()
    for view in views:
        for at, engine in enumerate(view.engines):
            figures = [line.figures[at] for line in view.lines]
            rows.append([engine, units.params(view.params)][: len(first)] + [_text(each, told) for each in figures])
            leading += [_text(each, told) for each in figures if told and each is not None and each.standing]
    columns = [grid.Column(name, left=True, key=True) for name in first] + [grid.Column(head) for head in heads]
    below = [*[""] * len(first), *units_]
    grid.render(columns, [below, *rows], console, ["dim", *[""] * len(rows)], dict.fromkeys(leading, BEST))
    every = [figure for view in views for line in view.lines for figure in line.figures if figure is not None]
    return {mark for mark in MEANING if any(mark in _marks(figure, told) for figure in every)}


def _called(line: Line, names: dict[str, str]) -> str:
    name, comma, tool = line.phase.partition(", by ")
    return f"{names.get(name, name)}{comma}{tool}"


def _text(figure: Figure | None, told: bool) -> str:
    if figure is None:
        return units.UNKNOWN
    # Why there is no figure, in a word: the whole reason stands below.
    return f"{figure.value}{_marks(figure, told)}" if figure.valid else figure.value.split(" ", 1)[0]


def _marks(figure: Figure, told: bool) -> str:
    return (DOUBTED if figure.valid and figure.doubts else "") + (LEADS if told and figure.standing else "")
