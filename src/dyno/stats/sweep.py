"""What one numeric parameter does to figures, with all else the same; from where on another engine is the faster;
and where one goes no further.

A crossing is told where an engine is shown to be faster at one value and shown to be slower at a larger one, by the
verdicts that every comparison has. Between neighbours it is interpolated, on the scale of the axis: linear in the
parameter or in its logarithm, and in the logarithm of the ratio. Where a value between the two can't be told, nor
can the point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from dyno.contracts.model import Tier
from dyno.contracts.sample import Cell
from dyno.results import Run
from dyno.stats.compare import Table, compared, tables
from dyno.stats.metric import Metric
from dyno.stats.run_cache import cached
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.verdict import MARGIN

WIDE = 20
"""From this ratio of the largest value to the least on, a scale is logarithmic."""
MOST_CROSSED = 40
"""Engines of a sweep among which crossings are looked for."""


@dataclass(frozen=True)
class Sweep:
    """Rows of one phase and tier, and of one value of each other parameter: a table for each value of this one."""

    parameter: str
    phase: str
    tier: Tier | None
    reported_by: str | None
    params: Mapping[str, object]
    """The others."""
    metric: Metric
    points: tuple[tuple[float, Table], ...]
    """By value, the least first."""


@dataclass(frozen=True)
class Crossing:
    sweep: Sweep
    below: Cell
    """The faster one under it."""
    above: Cell
    """The faster one from there on."""
    low: float
    """Values of the parameter between which it lies."""
    high: float
    at: float | None
    """None where a value between the two could not be told."""


@dataclass(frozen=True)
class End:
    """Where an engine's line ends before the others' do: it was tried with more, and has no figure there."""

    sweep: Sweep
    cell: Cell
    """The engine."""
    last: float | None
    """The largest value at which it has a figure; None where it has none at all."""
    at: float
    """The next one, at which it has none."""
    why: str


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def values(run: Run, parameter: str) -> list[float]:
    """Those that are numbers, without null engines'; the least first."""
    found = {cell.params.get(parameter) for cell in run.cells if not cell.floor}
    return sorted(value for value in found if isinstance(value, (int, float)) and is_number(value))


def swept(run: Run) -> list[str]:
    """The parameters with several values that are numbers."""
    return [name for name in run.cells[0].params if len(values(run, name)) > 1]


def logarithmic(found: Sequence[float]) -> bool:
    """Whether a scale over these should be; none is for what reaches zero."""
    return bool(found) and min(found) > 0 and max(found) >= WIDE * min(found)


def sweeps(run: Run, parameter: str, by: Metric | None = None) -> list[Sweep]:
    """In the order of the run, each with at least two values."""
    found: dict[object, list[Table]] = {}
    for table in tables(run, by):
        if is_number(table.params.get(parameter)):
            others = sorted((name, value) for name, value in table.params.items() if name != parameter)
            key = table.phase, table.tier, table.reported_by, table.metric.name, repr(others)
            found.setdefault(key, []).append(table)
    return [_sweep(parameter, group) for group in found.values() if len(group) > 1]


def _sweep(parameter: str, group: Sequence[Table]) -> Sweep:
    first = group[0]
    points = sorted(((float(str(table.params[parameter])), table) for table in group), key=lambda point: point[0])
    others = {name: value for name, value in first.params.items() if name != parameter}
    return Sweep(parameter, first.phase, first.tier, first.reported_by, others, first.metric, tuple(points))


def crossings(sweep: Sweep, log: bool, margin: float = MARGIN) -> list[Crossing]:
    """Of every two of the sweep's `leaders`; `log`: whether the scale is logarithmic."""
    return [
        crossing
        for one, other in combinations(leaders(sweep), 2)
        if _may_cross(sweep, one.asked, other.asked)
        for crossing in _between(sweep, one, other, log, margin)
    ]


def ends(run: Run, sweep: Sweep) -> list[End]:
    """Of each engine that has no figure at its largest values, by the least of these, in the order of the run."""
    there: dict[str, float] = {}
    for value, table in sweep.points:
        there.update((row.cell.asked, value) for row, _ in table.rows)
    found: dict[str, End] = {}
    for row in sorted(_without(run, sweep), key=lambda row: float(str(row.cell.params[sweep.parameter]))):
        name, value = row.cell.asked, float(str(row.cell.params[sweep.parameter]))
        if value > there.get(name, -math.inf):
            found.setdefault(name, End(sweep, row.cell, there.get(name), value, row.why or ""))
    return list(found.values())


def _without(run: Run, sweep: Sweep) -> Iterator[CellSummary]:
    """Rows of the sweep that were tried and have no figure."""
    for row in _failed(run):
        cell = row.cell
        if row.phase == sweep.phase and cell.tier == sweep.tier and is_number(cell.params[sweep.parameter]):
            others = {name: value for name, value in cell.params.items() if name != sweep.parameter}
            if others == sweep.params:
                yield row


@cached
def _failed(run: Run) -> tuple[CellSummary, ...]:
    """As a rule few: a large run has hundreds of sweeps."""
    return tuple(row for row in summarize(run) if not row.valid and row.attempts and not row.cell.floor)


def leaders(sweep: Sweep) -> list[Cell]:
    """The engines whose crossings are looked for, in the order of the sweep: those that are among the fastest at any
    value, where there are more than `MOST_CROSSED`. Each against each would be the square of their number."""
    cells: dict[str, Cell] = {}
    best: dict[str, int] = {}
    for _, table in sweep.points:
        for at, (row, _) in enumerate(table.rows):
            cells[row.cell.asked] = row.cell
            best[row.cell.asked] = min(at, best.get(row.cell.asked, at))
    chosen = set(sorted(best, key=lambda name: best[name])[:MOST_CROSSED])
    return [cell for name, cell in cells.items() if name in chosen]


def _may_cross(sweep: Sweep, one: str, other: str) -> bool:
    """Whether each is the faster one somewhere, be it by chance: a verdict on every pair would take much longer."""
    over, under = False, False
    for _, table in sweep.points:
        if one in table.places and other in table.places:
            (_, mine), (_, base) = table.rows[table.places[one]], table.rows[table.places[other]]
            middle = median([mine[block] / base[block] for block in mine if block in base] or [1.0])
            over, under = over or middle > 1, under or middle < 1
    return over and under


def _between(sweep: Sweep, one: Cell, other: Cell, log: bool, margin: float) -> Iterator[Crossing]:
    """`last`: the place, the value, the logarithm of the ratio where a verdict was clear."""
    last: tuple[int, float, float] | None = None
    for place, (value, table) in enumerate(sweep.points):
        if one.asked not in table.places or other.asked not in table.places:
            continue
        verdict = compared(table, table.places[one.asked], table.places[other.asked], margin).verdict
        if verdict.kind not in ("faster", "slower") or not verdict.ratio:
            continue
        now = place, value, math.log(verdict.ratio)
        if last is not None and (last[2] > 0) != (now[2] > 0):
            below, above = (one, other) if last[2] > 0 else (other, one)
            at = _zero(last, now, log) if place == last[0] + 1 else None
            yield Crossing(sweep, below, above, last[1], value, at)
        last = now


def _zero(last: tuple[int, float, float], now: tuple[int, float, float], log: bool) -> float:
    share = last[2] / (last[2] - now[2])
    low, high = (math.log(last[1]), math.log(now[1])) if log else (last[1], now[1])
    found = low + share * (high - low)
    return math.exp(found) if log else found
