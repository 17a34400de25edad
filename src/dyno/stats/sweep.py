"""Dependence of figures on one numeric parameter: sweeps, crossings, ends, and scaling with clients.

A crossing is reported if one engine is shown to be faster than another at one value and slower at a larger value, by
the same verdicts as in every comparison. Between neighbouring values the crossing is interpolated, in the logarithm
of the ratio and on the axis's scale, linear or logarithmic. If a value between the two is unclear, the crossing has
no point.

This module must not name a suite.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from dyno.contracts.cell import Cell
from dyno.contracts.model import Tier
from dyno.results import Run
from dyno.stats.cache import cache_by_run
from dyno.stats.compare import Table, compare_rows, tables
from dyno.stats.metric import THROUGHPUT, Metric
from dyno.stats.summary import CellSummary, group_values, summarize
from dyno.stats.verdict import MARGIN

WIDE = 20
"""If the ratio of the largest value to the least is at least this, a scale is logarithmic."""
MOST_CROSSED = 40
"""Maximum number of engines of a sweep that are searched for crossings."""
CLIENTS = "clients"
KNEE = 0.95
"""The knee is the least number of clients that reaches this share of the highest throughput."""


@dataclass(frozen=True)
class Sweep:
    """Rows of one phase, one tier and one value of each other parameter: a table for each value of the parameter."""

    parameter: str
    phase: str
    tier: Tier | None
    reported_by: str | None
    params: Mapping[str, object]
    """Values of the other parameters."""
    metric: Metric
    points: tuple[tuple[float, Table], ...]
    """Tables by value of the parameter, in ascending order."""


@dataclass(frozen=True)
class Crossing:
    """A range of the parameter in which another engine becomes the faster one."""

    sweep: Sweep
    below: Cell
    """The engine that is faster below the crossing."""
    above: Cell
    low: float
    """Values of the parameter between which the crossing lies."""
    high: float
    at: float | None
    """Interpolated value of the crossing; None if a value between `low` and `high` is unclear."""


@dataclass(frozen=True)
class End:
    """The end of an engine's line before the lines of others: the engine was tried with larger values and failed."""

    sweep: Sweep
    cell: Cell
    last: float | None
    """The largest value with a figure; None if there are no figures."""
    at: float
    """The next value, without a figure."""
    why: str


@dataclass(frozen=True)
class Scaling:
    """Scaling of one engine in a sweep over clients, with medians over trials."""

    sweep: Sweep
    cell: Cell
    points: tuple[tuple[int, float], ...]
    """Numbers of clients, each with the throughput as a multiple of a single client's."""
    knee: int
    """The least number of clients that reaches nearly the highest throughput."""

    @property
    def flat(self) -> bool:
        """Whether larger numbers of clients than the knee were measured; if not, the true knee may be larger."""
        return self.points[-1][0] > self.knee


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def values(run: Run, parameter: str) -> list[float]:
    """Returns the parameter's numeric values in ascending order. Values that only null engines have don't count."""
    every = {cell.params.get(parameter) for cell in run.cells if not cell.floor}
    return sorted(value for value in every if isinstance(value, (int, float)) and is_number(value))


def swept_params(run: Run) -> list[str]:
    """Returns the parameters with several numeric values."""
    return [name for name in run.cells[0].params if len(values(run, name)) > 1]


def logarithmic(of: Sequence[float]) -> bool:
    """Returns whether a scale over these values is logarithmic."""
    return bool(of) and min(of) > 0 and max(of) >= WIDE * min(of)


def sweeps(run: Run, parameter: str, by: Metric | None = None) -> list[Sweep]:
    """Returns the sweeps with at least two values, in the order of the run."""
    groups: dict[object, list[Table]] = {}
    for table in tables(run, by):
        if is_number(table.params.get(parameter)):
            others = sorted((name, value) for name, value in table.params.items() if name != parameter)
            key = table.phase, table.tier, table.reported_by, table.metric.name, repr(others)
            groups.setdefault(key, []).append(table)
    sweeps = list[Sweep]()
    for group in (group for group in groups.values() if len(group) > 1):
        points = sorted(((float(str(table.params[parameter])), table) for table in group), key=lambda point: point[0])
        one = group[0]
        params = {name: value for name, value in one.params.items() if name != parameter}
        sweeps.append(Sweep(parameter, one.phase, one.tier, one.reported_by, params, one.metric, tuple(points)))
    return sweeps


# -- crossings ----------------------------------------------------------------------------------------------


def crossings(sweep: Sweep, log: bool, margin: float = MARGIN) -> list[Crossing]:
    """Returns the crossings of every two of the sweep's `leaders`. `log`: whether the scale is logarithmic."""
    return [
        crossing
        for one, other in combinations(leaders(sweep), 2)
        if _may_cross(sweep, one.row, other.row)
        for crossing in _find_crossings(sweep, one, other, log, margin)
    ]


def leaders(sweep: Sweep) -> list[Cell]:
    """Returns the engines that are searched for crossings, in the order of the sweep. If there are more than
    `MOST_CROSSED`, returns those that rank best at any value, because the work grows with the square of their
    number."""
    cells: dict[str, Cell] = {}
    best: dict[str, int] = {}
    for _, table in sweep.points:
        for at, (row, _) in enumerate(table.rows):
            cells[row.cell.row] = row.cell
            best[row.cell.row] = min(at, best.get(row.cell.row, at))
    chosen = set(sorted(best, key=lambda name: best[name])[:MOST_CROSSED])
    return [cell for name, cell in cells.items() if name in chosen]


def _may_cross(sweep: Sweep, one: str, other: str) -> bool:
    """Returns whether each of two engines has the higher median somewhere. Verdicts would take much longer."""
    over, under = False, False
    for _, table in sweep.points:
        if one in table.places and other in table.places:
            (_, speeds), (_, base) = table.rows[table.places[one]], table.rows[table.places[other]]
            middle = median([speeds[block] / base[block] for block in speeds if block in base] or [1.0])
            over, under = over or middle > 1, under or middle < 1
    return over and under


def _find_crossings(sweep: Sweep, one: Cell, other: Cell, log: bool, margin: float) -> Iterator[Crossing]:
    last: tuple[int, float, float] | None = None
    """Position, value and logarithm of the ratio of the last clear verdict."""
    for place, (value, table) in enumerate(sweep.points):
        if one.row not in table.places or other.row not in table.places:
            continue
        verdict = compare_rows(table, table.places[one.row], table.places[other.row], margin).verdict
        if verdict.kind not in ("faster", "slower") or not verdict.ratio:
            continue
        now = place, value, math.log(verdict.ratio)
        if last is not None and (last[2] > 0) != (now[2] > 0):
            if last[2] > 0:
                below = one
                above = other
            else:
                below = other
                above = one
            at = None
            if place == last[0] + 1:
                # Interpolate to the point where the logarithm of the ratio is 0.
                if log:
                    low = math.log(last[1])
                    high = math.log(value)
                else:
                    low = last[1]
                    high = value
                zero = low + last[2] / (last[2] - now[2]) * (high - low)
                at = zero
                if log:
                    at = math.exp(zero)
            yield Crossing(sweep, below, above, last[1], value, at)
        last = now


# -- ends ---------------------------------------------------------------------------------------------------


def ends(run: Run, sweep: Sweep) -> list[End]:
    """Returns an end for each engine that has no figure at its largest values, in the order of the run."""
    last: dict[str, float] = {}
    for value, table in sweep.points:
        last.update((row.cell.row, value) for row, _ in table.rows)
    ends: dict[str, End] = {}
    rows = [
        row
        for row in _failed_rows(run)
        if row.phase == sweep.phase
        and row.cell.tier == sweep.tier
        and is_number(row.cell.params[sweep.parameter])
        and sweep.params == {name: value for name, value in row.cell.params.items() if name != sweep.parameter}
    ]
    for row in sorted(rows, key=lambda row: float(str(row.cell.params[sweep.parameter]))):
        name, value = row.cell.row, float(str(row.cell.params[sweep.parameter]))
        if value > last.get(name, -math.inf):
            ends.setdefault(name, End(sweep, row.cell, last.get(name), value, row.why or ""))
    return list(ends.values())


@cache_by_run
def _failed_rows(run: Run) -> tuple[CellSummary, ...]:
    # Cached, because a large run has hundreds of sweeps but few failed rows.
    return tuple(row for row in summarize(run) if not row.valid and row.attempts and not row.cell.floor)


# -- scaling with clients -----------------------------------------------------------------------------------


def scalings(run: Run) -> Iterator[Scaling]:
    """Yields the scaling of engines that were measured with one client and with more, if rows are compared by
    throughput."""
    for sweep in sweeps(run, CLIENTS, THROUGHPUT):
        rows = [(int(value), row) for value, table in sweep.points for row, _ in table.rows]
        for of_engine in group_values((row.cell.row, (clients, row)) for clients, row in rows).values():
            rates = [(clients, row.throughput.median) for clients, row in of_engine if row.throughput is not None]
            (first, alone), most = rates[0], max(rate for _, rate in rates)
            if first == 1 and len(rates) > 1 and alone > 0:
                knee = next(clients for clients, rate in rates if rate >= KNEE * most)
                yield Scaling(sweep, of_engine[0][1].cell, tuple((n, rate / alone) for n, rate in rates), knee)
