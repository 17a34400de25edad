"""Sweeps in words and figures: what tables on a terminal and on the page say of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dyno.report.tables import row_titles, units
from dyno.report.tables.table import figure, varying
from dyno.results import Run
from dyno.stats.metric import THROUGHPUT
from dyno.stats.run_cache import cached
from dyno.stats.sweep import Crossing, End, Sweep, crossings, ends, logarithmic, sweeps, swept, values


@dataclass(frozen=True)
class SweepText:
    """A sweep as text: a line for each engine, a column for each value."""

    sweep: Sweep
    title: str
    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    """The engine, and its figure at each value."""
    crossings: tuple[Crossing, ...]
    ends: tuple[End, ...]


def number(value: float) -> str:
    """A parameter's value: '30,000', '0.5'."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


@cached
def every(run: Run) -> tuple[Sweep, ...]:
    """Of every parameter that has several values, in the order of the run."""
    return tuple(sweep for name in swept(run) for sweep in sweeps(run, name))


@cached
def crossed(run: Run) -> tuple[Crossing, ...]:
    logs = {name: logarithmic(values(run, name)) for name in swept(run)}
    return tuple(crossing for sweep in every(run) for crossing in crossings(sweep, logs[sweep.parameter]))


@cached
def ended(run: Run) -> tuple[End, ...]:
    """Of all sweeps, where an engine goes no further."""
    return tuple(end for sweep in every(run) for end in ends(run, sweep))


def told(run: Run, sweep: Sweep) -> SweepText:
    changing, log = varying(run), logarithmic(values(run, sweep.parameter))
    names = list(dict.fromkeys(row.cell.label for _, table in sweep.points for row, _ in table.rows))
    figures: dict[tuple[str, float], str] = {}
    for value, table in sweep.points:
        for row, _ in table.rows:
            figures[row.cell.label, value] = figure(row, sweep.metric)
    unit = sweep.points[0][1].rows[0][0].unit
    what = f"{unit}/s" if sweep.metric is THROUGHPUT else sweep.metric.title
    lines = [(name, *(figures.get((name, value), units.UNKNOWN) for value, _ in sweep.points)) for name in names]
    heads = (sweep.parameter, *(number(value) for value, _ in sweep.points))
    title = row_titles.named(where(sweep, changing), f"{what} by {sweep.parameter}")
    return SweepText(sweep, title, heads, tuple(lines), tuple(crossings(sweep, log)), tuple(ends(run, sweep)))


def where(sweep: Sweep, changing: list[str]) -> str:
    """'read, tier power, batch=4, reported by x 1.0': what tells a sweep from others."""
    params = units.params({name: value for name, value in sweep.params.items() if name in changing})
    tool = f"reported by {sweep.reported_by}" if sweep.reported_by else ""
    return row_titles.named(sweep.phase, row_titles.tier(sweep.tier), params, tool)


def sentence(found: Crossing) -> str:
    """'from length = 32,000 on, radix is faster than timsort (interpolated between 10,000 and 100,000)'."""
    name, metric = found.sweep.parameter, found.sweep.metric
    by = "" if metric is THROUGHPUT else f", by {metric.title}"
    between = f"{number(found.low)} and {number(found.high)}"
    if found.at is None:
        return f"between {name} = {between}, {found.above.label} becomes faster than {found.below.label}{by}"
    return (
        f"from {name} = {point(found)} on, {found.above.label} is faster than {found.below.label}{by}"
        f" (interpolated between {between})"
    )


def ending(found: End) -> str:
    """'radix goes no further than length = 100,000: at 1,000,000 timeout: not done after 60 s'."""
    name, at = found.sweep.parameter, number(found.at)
    if found.last is None:
        return f"{found.cell.label} has no figure from {name} = {at} on: {found.why}"
    return f"{found.cell.label} goes no further than {name} = {number(found.last)}: at {at} {found.why}"


def point(found: Crossing) -> str:
    """Where it is, to two digits, which is more than it is known to."""
    if found.at is None:
        return units.UNKNOWN
    whole = float(found.low).is_integer() and float(found.high).is_integer()
    if whole and found.at < 100:
        return number(math.ceil(found.at))
    digits = 1 - math.floor(math.log10(abs(found.at))) if found.at else 0
    return number(min(max(round(found.at, digits), found.low), found.high))


def rows(run: Run) -> Iterator[Mapping[str, str]]:
    """The crossing points as a table."""
    changing = varying(run)
    for found in crossed(run):
        yield {
            "where": where(found.sweep, changing),
            "parameter": found.sweep.parameter,
            "faster below": found.below.label,
            "from": point(found),
            "faster from there on": found.above.label,
            "between": f"{number(found.low)} and {number(found.high)}",
        }
