"""A published table and ours, line by line. No ratio of the two is drawn: they are of different machines. What the
published text says of its figures is checked against ours alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.text import Text

from dyno.published import Experiment, PublishedRow
from dyno.report.replicate import curvereplica, findings, matrixreplica, partsreplica, published_style, widereplica
from dyno.report.tables import grid, growth, row_titles, units
from dyno.results import Run
from dyno.stats import style
from dyno.stats.doubts import doubts
from dyno.stats.growth import Growth, growths
from dyno.stats.summary import CellSummary, summarize

MEANS = (
    "mean: the published style, of all trials with their standard deviation in percent; right of it ours, the median"
    " over all trials, with its interval"
)


def listing(experiments: Iterable[Experiment], console: Console) -> None:
    """Name and source of each."""
    columns = [grid.Column("experiment", left=True, style="bold"), grid.Column("published", left=True, folds=True)]
    grid.render(columns, [(experiment.name, experiment.citation) for experiment in experiments], console)


def render(experiment: Experiment, run: Run, console: Console, missing: Mapping[str, str] | None = None) -> None:
    """The published figures on the left, this run's on the right: medians over trials. Then what was found there, and
    what this run says of it. `missing`: engines that could not run here, and why."""
    console.print(Text(experiment.citation, "bold"))
    console.print(f"published on: {experiment.machine}")
    if experiment.lines:
        widereplica.render(experiment, run, console)
    elif experiment.rows:
        _rows(experiment, run, console)
    if experiment.matrix is not None:
        matrixreplica.render(experiment.matrix, run, console)
    if experiment.parts:
        partsreplica.render(experiment, run, console)
    if experiment.curves is not None:
        curvereplica.render(experiment.curves, run, console)
    if experiment.style is not None:
        published_style.render(experiment, experiment.style, run, console)
    if experiment.grows is not None:
        parameter = experiment.grows.parameter
        growth.render(growths(run, parameter), parameter, experiment.grows.names, console)
    console.print()
    left_out = {each.engine: each.published_as for each in experiment.contenders if each.engine in (missing or {})}
    for engine, name in left_out.items():
        console.print(Text(f"  {name}: not run here: {engine} {(missing or {})[engine]}"), soft_wrap=True)
    for note in experiment.notes:
        console.print(Text(f"  {note}"), soft_wrap=True)
    if experiment.findings:
        findings.render(experiment, run, console)


def _rows(experiment: Experiment, run: Run, console: Console) -> None:
    means = any(row.deviation_percent is not None for row in experiment.rows)
    parameter = experiment.grows.parameter if experiment.grows else ""
    ours = {(row.cell.asked, row.phase, row.cell.params.get(parameter)): row for row in summarize(run)}
    curves = {(each.cell.asked, each.phase): each for each in growths(run, parameter)} if parameter else {}
    smallest = min((each for _, _, each in ours if isinstance(each, (int, float))), default=None)
    columns = [
        grid.Column("published", left=True, folds=True, key=True),
        grid.Column("mode", left=True, key=True),
        *map(grid.Column, ("items", "time", "per second")),
        grid.Column("│ ours", left=True, folds=True),
        *map(grid.Column, ("items", *(["mean"] if means else []), "time", "per second", "[95 %]")),
        grid.Column("remarks", left=True, folds=True, style="yellow"),
    ]
    lines = list[list[str]]()
    previous = None
    for row in experiment.rows:
        if previous not in (None, row.engine):
            lines.append([*[""] * 5, "│", *[""] * (len(columns) - 6)])
        previous = row.engine
        found = ours.get((row.engine, row.phase, smallest if row.at is None else row.at))
        curve = curves.get((row.engine, row.phase))
        if found is None and row.at is not None and curve is not None:
            lines.append([*_published(row), *_extrapolated(row.at, curve, means)])
            continue
        remarks = "" if found is None else ", ".join(doubt.short for doubt in doubts(found, run))
        lines.append([*_published(row), *_ours(row, found, means), remarks])
    console.print()
    grid.render(columns, lines, console)
    if means:
        console.print()
        console.print(Text(MEANS, "dim"))


def _published(row: PublishedRow) -> list[str]:
    return [
        row.published_as,
        row.phase,
        units.count(row.items),
        _mean(row.seconds * 1e9, row.deviation_percent),
        units.rate(row.per_second),
    ]


def _mean(ns: float, deviation_percent: float | None) -> str:
    return growth.span(ns) + ("" if deviation_percent is None else f" ± {deviation_percent:.2f} %")


def _extrapolated(at: float, curve: Growth, means: bool) -> list[str]:
    """Our cells of a row extrapolated to size `at`. The rate is left out if the items don't grow with the size."""
    between = [""] if means else []
    name = f"│ {row_titles.named(curve.cell.asked, curve.cell.tier_name or '')}"
    if curve.fit is None:
        return [name, "", *between, "", "", "", f"not extrapolated: {len(curve.points)} sizes measured are too few"]
    found, items, remark = curve.fit.at(at), curve.items_at(at), "extrapolated, not measured"
    if items is None:
        return [name, "", *between, growth.span(found.ns), "", "", remark]
    rates = [items / ns * 1e9 for ns in (found.ns, found.high, found.low)]
    rate, interval = units.rate(rates[0]), units.interval(*rates[1:])
    return [name, units.count(round(items)), *between, growth.span(found.ns), rate, interval, remark]


def _ours(row: PublishedRow, found: CellSummary | None, means: bool) -> list[str]:
    between = [""] if means else []
    if found is None:
        return [f"│ {row.engine}: not here", "", *between, "", "", ""]
    name = f"│ {row_titles.named(found.cell.asked, found.cell.tier_name or '')}"
    if found.throughput is None:
        return [name, "", *between, "", (found.why or "").split(":", 1)[0], ""]
    rate, mean = found.throughput, style.mean_elapsed(found)
    return [
        name,
        units.count(found.items),
        *([units.UNKNOWN if mean is None else _mean(*mean)] if means else []),
        units.duration(found.elapsed_ns),
        units.rate(rate.median),
        units.interval(rate.low, rate.high),
    ]
