"""Table of a run's times per operation in the style of a published experiment, next to Dyno's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from dyno.contracts.sample import Cell
from dyno.published import Experiment, Style
from dyno.published.findings import Contender
from dyno.report.tables import grid, row_titles, units
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats import style as styles
from dyno.stats.doubts import doubts
from dyno.stats.summary import CellSummary, summarize

CLIENTS = "clients"


def render(experiment: Experiment, style: Style, run: Run, console: Console) -> None:
    """Prints our figures only, in the published style and in Dyno's: the published ones exist as pictures."""
    names = [name for name in varying(run) if name != CLIENTS] + [CLIENTS]
    contenders = {each.engine: each for each in experiment.contenders}
    rows = sorted(_rows(run, contenders), key=lambda row: _place(row, names, run, list(contenders)))
    columns = [
        *(grid.Column(name, left=name == "phase", key=True) for name in ("phase", *names)),
        *(grid.Column(name, left=True, key=True) for name in ("measured here", "published as")),
        *map(grid.Column, (f"best of {style.runs} means", "median", "[95 %]", "per second", "[95 %]")),
        grid.Column("remarks", left=True, folds=True, style="yellow"),
    ]
    lines = list[list[str]]()
    previous = None
    for row in rows:
        part = row.phase, *(row.cell.params[name] for name in names[:-1])
        if previous not in (None, part):
            lines.append([""] * len(columns))
        previous = part
        values = (units.count(v) if isinstance(v, int) else str(v) for v in map(row.cell.params.get, names))
        remarks = ", ".join(doubt.short for doubt in doubts(row, run))
        contender = contenders[row.cell.asked]
        names_of = contender.stand_in or contender.name, contender.published_as
        lines.append([row.phase, *values, *names_of, *_figures(row, style), remarks])
    console.print()
    grid.render(columns, lines, console)
    console.print()
    for line in _legend(rows, style, contenders):
        console.print(Text(line, "dim"), soft_wrap=True)


def _rows(run: Run, contenders: Mapping[str, Contender]) -> Iterator[CellSummary]:
    return (row for row in summarize(run) if row.cell.asked in contenders and not row.cell.floor)


def _place(row: CellSummary, names: list[str], run: Run, engines: list[str]) -> tuple[object, ...]:
    """In the order of the plan: what is not swept, the phase, and then the clients."""
    orders = {name: list(dict.fromkeys(cell.params[name] for cell in run.cells)) for name in names}
    at = [orders[name].index(row.cell.params[name]) for name in names]
    phases = list(run.plan["phases"])
    return *at[:-1], phases.index(row.phase), at[-1], engines.index(row.cell.asked)


def _figures(row: CellSummary, style: Style) -> list[str]:
    ours, rate = styles.typical(row), row.throughput
    if ours is None or rate is None:
        return ["", f"{(row.why or units.UNKNOWN).split(':', 1)[0]}", "", "", ""]
    known = ours.low is not None
    between = f"{units.duration(ours.low)} – {units.duration(ours.high)}" if known else units.UNKNOWN
    best = units.duration(styles.best_of_means(row, style.runs))
    return [
        best,
        units.duration(ours.median),
        between,
        units.rate(rate.median),
        units.interval(rate.low, rate.high),
    ]


def _legend(rows: list[CellSummary], style: Style, contenders: Mapping[str, Contender]) -> Iterator[str]:
    counts = [number for row in rows for number in styles.each(row)]
    had = f"; here each client had {units.count(min(counts))}" if counts else ""
    had += f" to {units.count(max(counts))}" if counts and max(counts) > min(counts) else ""
    yield (
        f"best of {style.runs} means: the published style, the least of {style.runs} trials' mean durations of"
        f" {style.operations} operations{had}"
    )
    yield "median, per second: Dyno's style, medians over all trials of the mean duration and of the rate"
    cells: dict[str, Cell] = {row.cell.asked: row.cell for row in rows}
    for engine, cell in cells.items():
        yield f"{contenders[engine].title}: {row_titles.engine(engine, cell.tier)}"
