"""The run as a table on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from dyno.report.tables import (
    ceilingtext,
    differing_settings,
    grid,
    heading,
    overviewtext,
    rates,
    row_titles,
    scalingtext,
    sweeptext,
    units,
    wide,
    widetext,
    wording,
)
from dyno.report.tables.evidence import evidence
from dyno.report.tables.table import (
    Group,
    Row,
    absent,
    bandwidth,
    costs,
    failures,
    groups,
    interval,
    legend,
    loops,
    meaning,
    served,
    tails,
    varying,
)
from dyno.results import Run
from dyno.stats.doubts import machine

BAR = 12
EIGHTHS = " ▏▎▍▌▋▊▉"
COLUMNS = (
    "engine",
    "parameters",
    "counted",
    "time",
    "rate",
    "bandwidth",
    "bar",
    "interval",
    "cpu",
    "client",
    "server",
    "p50",
    "p99",
    "p99.99",
    "max",
    "resp p50",
    "resp p99",
    "on disk",
    "remarks",
)
LEFT = ("engine", "parameters", "bar", "remarks")
FOLDED = ("parameters", "remarks")
KEYS = ("engine", "parameters")
BY_PHASE = "`dyno show RUN --by-phase` has a table for each phase, with intervals, latencies and the floor"


def render(run: Run, console: Console, by_phase: bool = False, whole: bool = False) -> None:
    """Prints the run: what was asked, an overview, and the answer. `whole`: a table for each phase and tier, and what
    speaks against each number; `by_phase` wants them also where the suite has a table of its own.
    """
    found = groups(run)
    own = [] if by_phase else wide.tables(run, found)
    if own and not wide.beside(run):
        shown = [group for group in found if group.phase in wide.phases(run)]
        _header(run, console)
        widetext.render(own, console)
        scalingtext.render(run, console)
        ceilingtext.render(run, console)
        _footer(run, found, legend(shown) + wide.legend(run) + [BY_PHASE], console)
        return
    if not (whole or by_phase):
        _header(run, console, heading.runs(run))
        overviewtext.render(run, console)
        widetext.render(own, console)
        sweeptext.render(run, console)
        scalingtext.render(run, console)
        _footer(run, found, [], console, overviewtext.called(run))
        console.print()
        for line in _further(run):
            console.print(Text(line), soft_wrap=True)
        return
    changing = varying(run)
    apart = served(found)
    rows = [[_cells(row, group, changing, apart) for row in group.rows] for group in found]
    widths = _widths([cells for group in rows for cells in group])
    _header(run, console)
    for group, cells in zip(found, rows, strict=True):
        console.print()
        beside = row_titles.named(row_titles.explained(group.tier))
        console.print(Text.assemble((group.place, "bold"), f"  {beside}" if beside else ""))
        if group.empty:
            console.print("Nothing was measured.")
        else:
            _table(group, cells, widths, console)
    widetext.render(own, console)
    sweeptext.render(run, console)
    scalingtext.render(run, console)
    ceilingtext.render(run, console)
    columns = meaning(found) if {"cpu", "client"} & widths.keys() else []
    _footer(run, found, legend(found) + columns + (wide.legend(run) if own else []), console)


def _further(run: Run) -> list[str]:
    """Where what is not in the overview can be looked at."""
    run_ = shlex.quote(str(run.path))
    return [
        f"Intervals, latencies, CPU time and every doubt: dyno show {run_} --all",
        f"Charts, on one page: dyno report {run_}",
    ]


def _header(run: Run, console: Console, trials: str = "") -> None:
    console.print(Text(f"{run.plan['suite']}: {heading.fixed(run)}", "bold"))
    console.print(f"{trials or heading.trials(run)}; {heading.length(run)}; seed {run.plan['seed']}")
    console.print(heading.machine(run))
    if memory := heading.peaks(run):
        console.print(Text(memory), soft_wrap=True)
    if measured := loops(run):
        console.print(f"Measured by {measured}")


def _cells(row: Row, group: Group, changing: list[str], apart: bool) -> dict[str, str]:
    summary = row.summary
    found = summary.throughput
    cells = {
        "engine": row.name,
        "parameters": units.params({name: summary.cell.params[name] for name in changing}),
        "remarks": ", ".join(row.remarks()),
    }
    if found is None:
        why = summary.why or "not measured"
        return {**cells, "rate": why.split(":", 1)[0].split(" ", 1)[0], "unit": summary.unit}
    return {
        **cells,
        "unit": summary.unit,
        "counted": units.count(summary.items),
        "time": units.duration(summary.elapsed_ns),
        "rate": units.rate(found.median),
        "bandwidth": bandwidth(summary),
        "bar": "" if summary.cell.floor else _bar(row.speed or 0.0, group.best),
        "interval": interval(summary),
        **costs(summary, apart),
        "p50": units.duration(summary.latency_ns["p50"]),
        "p99": units.duration(summary.latency_ns["p99"]),
        **tails(summary),
        **{f"resp {name}": _known(summary.response_ns[name]) for name in ("p50", "p99")},
        "on disk": units.size(summary.bytes_on_disk),
    }


def _known(ns: int | None) -> str:
    """Nothing for a closed loop, so that its column goes."""
    return "" if ns is None else units.duration(ns)


def _bar(value: float, best: float | None) -> str:
    eighths = round(value / best * BAR * 8) if best else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _widths(rows: list[dict[str, str]]) -> dict[str, int]:
    """One width for a column in all tables, so that they line up; without columns that are always empty."""
    widths = {}
    for column in COLUMNS:
        longest = max((len(cells.get(column, "")) for cells in rows), default=0)
        if longest:
            widths[column] = max(longest, len(_heading(column, "key")))
    return widths


def _heading(column: str, unit: str) -> str:
    return {"counted": f"{unit}s", "rate": f"{unit}/s", "bar": "", "interval": "[95 %]"}.get(column, column)


def _table(group: Group, rows: list[dict[str, str]], widths: dict[str, int], console: Console) -> None:
    columns = [
        grid.Column(
            _heading(column, rows[0]["unit"]),
            left=column in LEFT,
            least=0 if column == "remarks" else width,
            folds=column in FOLDED,
            style={"bar": "cyan", "remarks": "yellow"}.get(column, ""),
            key=column in KEYS,
            spare=column == "bar",
        )
        for column, width in widths.items()
    ]
    styles = ["dim" if row.summary.cell.floor else "" if row.summary.valid else "red" for row in group.rows]
    grid.render(columns, [[cells.get(column, "") for column in widths] for cells in rows], console, styles)


def _footer(
    run: Run, found: list[Group], remarks: list[str], console: Console, names: Mapping[str, str] | None = None
) -> None:
    """`remarks`: what remarks mean, and columns that do not tell. `names`: of phases, see `words.answers`."""
    answers = wording.answers(run, names)
    sure = [wording.MEANS] if any(wording.SURE in answer for answer in answers) else []
    parts = (
        ("In short", rates.lines(run, found, names or {}) + answers + sure),
        ("Settings that differ", differing_settings.lines(run)),
        ("No number", failures(found)),
        ("Not measured", absent(run)),
        ("Remarks", remarks),
        ("Tiers", evidence(run)),
        ("This machine", [f"{finding.text} ({finding.remedy})" for finding in machine(run)]),
    )
    for title, lines in parts:
        if lines:
            console.print()
            console.print(Text(title, "bold"))
            for line in lines:
                console.print(Text("  " + line), soft_wrap=True)
    if not run.complete:
        console.print()
        ended, planned = run.progress
        console.print(Text(f"Not complete: {ended} trials of {planned} have ended", "bold red"))
