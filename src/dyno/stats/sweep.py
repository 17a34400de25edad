"""Dependence of figures on one numeric parameter: sweeps, crossings, ends, scaling with clients, and growth.

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
from operator import mul
from statistics import median

from dyno.contracts.cell import Cell
from dyno.contracts.model import Tier
from dyno.results import Run
from dyno.stats.compare import Table, compared, tables
from dyno.stats.estimate import two_sided
from dyno.stats.metric import THROUGHPUT, Metric
from dyno.stats.summary import CellSummary, cached, grouped, summarize
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


def swept(run: Run) -> list[str]:
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
        if _may_cross(sweep, one.asked, other.asked)
        for crossing in _between(sweep, one, other, log, margin)
    ]


def leaders(sweep: Sweep) -> list[Cell]:
    """Returns the engines that are searched for crossings, in the order of the sweep. If there are more than
    `MOST_CROSSED`, returns those that rank best at any value, because the work grows with the square of their
    number."""
    cells: dict[str, Cell] = {}
    best: dict[str, int] = {}
    for _, table in sweep.points:
        for at, (row, _) in enumerate(table.rows):
            cells[row.cell.asked] = row.cell
            best[row.cell.asked] = min(at, best.get(row.cell.asked, at))
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


def _between(sweep: Sweep, one: Cell, other: Cell, log: bool, margin: float) -> Iterator[Crossing]:
    last: tuple[int, float, float] | None = None
    """Position, value and logarithm of the ratio of the last clear verdict."""
    for place, (value, table) in enumerate(sweep.points):
        if one.asked not in table.places or other.asked not in table.places:
            continue
        verdict = compared(table, table.places[one.asked], table.places[other.asked], margin).verdict
        if verdict.kind not in ("faster", "slower") or not verdict.ratio:
            continue
        now = place, value, math.log(verdict.ratio)
        if last is not None and (last[2] > 0) != (now[2] > 0):
            below, above = (one, other) if last[2] > 0 else (other, one)
            at = None
            if place == last[0] + 1:
                # Interpolate to the point where the logarithm of the ratio is 0.
                low, high = (math.log(last[1]), math.log(value)) if log else (last[1], value)
                zero = low + last[2] / (last[2] - now[2]) * (high - low)
                at = math.exp(zero) if log else zero
            yield Crossing(sweep, below, above, last[1], value, at)
        last = now


# -- ends ---------------------------------------------------------------------------------------------------


def ends(run: Run, sweep: Sweep) -> list[End]:
    """Returns an end for each engine that has no figure at its largest values, in the order of the run."""
    last: dict[str, float] = {}
    for value, table in sweep.points:
        last.update((row.cell.asked, value) for row, _ in table.rows)
    ends: dict[str, End] = {}
    rows = [
        row
        for row in _failed(run)
        if row.phase == sweep.phase
        and row.cell.tier == sweep.tier
        and is_number(row.cell.params[sweep.parameter])
        and sweep.params == {name: value for name, value in row.cell.params.items() if name != sweep.parameter}
    ]
    for row in sorted(rows, key=lambda row: float(str(row.cell.params[sweep.parameter]))):
        name, value = row.cell.asked, float(str(row.cell.params[sweep.parameter]))
        if value > last.get(name, -math.inf):
            ends.setdefault(name, End(sweep, row.cell, last.get(name), value, row.why or ""))
    return list(ends.values())


@cached
def _failed(run: Run) -> tuple[CellSummary, ...]:
    # Cached, because a large run has hundreds of sweeps but few failed rows.
    return tuple(row for row in summarize(run) if not row.valid and row.attempts and not row.cell.floor)


# -- scaling with clients -----------------------------------------------------------------------------------


def scalings(run: Run) -> Iterator[Scaling]:
    """Yields the scaling of engines that were measured with one client and with more, if rows are compared by
    throughput."""
    for sweep in sweeps(run, CLIENTS, THROUGHPUT):
        rows = [(int(value), row) for value, table in sweep.points for row, _ in table.rows]
        for of_engine in grouped((row.cell.asked, (clients, row)) for clients, row in rows).values():
            rates = [(clients, row.throughput.median) for clients, row in of_engine if row.throughput is not None]
            (first, alone), most = rates[0], max(rate for _, rate in rates)
            if first == 1 and len(rates) > 1 and alone > 0:
                knee = next(clients for clients, rate in rates if rate >= KNEE * most)
                yield Scaling(sweep, of_engine[0][1].cell, tuple((n, rate / alone) for n, rate in rates), knee)


# -- growth: how the time of a phase, or the size on disk, grows with parameters ------------------------------
#
# Powers of the parameters are fitted: log(time) = a + b log(value) + c log(other value), by least squares over the
# medians of the values. The deviations are assumed to be normal, independent and of equal size. They include the
# difference between the true curve and a power. The 95 % interval is a prediction interval: the range in which the
# median of a further value would be measured. It widens with the distance on the logarithmic scale (Draper and Smith,
# Applied Regression Analysis, 1998, 3.1 and 5.1).
#
# Beyond the largest value growth may change: data may outgrow a cache, or a tree may get a further level. So an
# extrapolation is valid only if growth continues, and every report of it must say so. To test an extrapolation,
# values can be held out: they are left out of the fit and compared with its prediction.

FEWEST_VALUES = 4
"""Values needed for a fit over one parameter; each further one takes one more. Three leave one degree of freedom, and
an interval of many orders of magnitude."""
CONFIDENCE = 0.95
TIME, DISK, TRIAL = "time", "disk", "whole trial"
"""Kinds of figures: time of a phase, size on disk after a phase that writes, and time of all that a trial does."""
DONE = "count"
"""Value of `ended_by` for a phase that did all its operations."""
Place = float | tuple[float, ...]
"""The value of a parameter, or the values of several."""


@dataclass(frozen=True)
class Predicted:
    """The predicted time in ns, or size in bytes, and its interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """Fitted powers of the parameters: log(time) = log + the sum of exponent * log(value)."""

    log: float
    exponents: tuple[float, ...]
    error: float
    """Standard deviation of the medians' logarithms around the curve."""
    inverse: tuple[tuple[float, ...], ...]
    """Inverse of the design matrix times its transpose. The first row and column are those of `log`."""
    count: int

    @property
    def _t(self) -> float:
        return two_sided(CONFIDENCE, self.count - 1 - len(self.exponents))

    def exponent_interval(self, at: int = 0) -> tuple[float, float]:
        half = self._t * self.error * math.sqrt(self.inverse[at + 1][at + 1])
        return self.exponents[at] - half, self.exponents[at] + half

    def at(self, place: Place) -> Predicted:
        """Predicts the figure at values over zero."""
        x = (1.0, *map(math.log, each(place)))
        middle = sum(map(mul, (self.log, *self.exponents), x))
        distance = sum(sum(map(mul, row, x)) * value for row, value in zip(self.inverse, x, strict=True))
        half = self._t * self.error * math.sqrt(1 + distance)
        # e to the power of 710 is too large for a float.
        return Predicted(math.exp(middle), math.exp(middle - half), math.exp(min(middle + half, 700.0)))


def each(place: Place) -> tuple[float, ...]:
    return place if isinstance(place, tuple) else (place,)


@dataclass(frozen=True)
class HeldOut:
    """A value that was left out of the fit."""

    value: Place
    measured: float
    predicted: Predicted

    @property
    def inside(self) -> bool:
        return self.predicted.low <= self.measured <= self.predicted.high


@dataclass(frozen=True)
class Growth:
    """Growth of one engine in one phase, with all other parameters the same."""

    cell: Cell
    """One of the engine's cells."""
    phase: str
    points: tuple[tuple[Place, float], ...]
    """The fitted values and the medians of the time in ns or of the size in bytes, in ascending order of values."""
    fit: Fit | None
    """None if there are too few values."""
    held_out: tuple[HeldOut, ...]
    items: Mapping[Place, int]
    """Items that the throughput counts, by value."""
    kind: str
    """TIME, DISK or TRIAL."""

    def items_at(self, value: float) -> float | None:
        """Returns the number of items at a value of one parameter; None if it is not proportional to the value."""
        shares = {count / each(at)[0] for at, count in self.items.items()}
        return next(iter(shares)) * value if shares and max(shares) - min(shares) <= 1e-9 * max(shares) else None


def fit(points: Sequence[tuple[Place, float]]) -> Fit | None:
    """Fits values and figures, which must be over zero. Returns None for too few values."""
    import numpy as np

    places = sorted({each(place) for place, _ in points})
    if len(places) < FEWEST_VALUES - 1 + len(places[0] if places else ()):
        return None
    design = np.array([(1.0, *map(math.log, each(place))) for place, _ in points])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    ys = np.log([figure for _, figure in points])
    inverse = np.linalg.inv(design.T @ design)
    log, *exponents = (inverse @ design.T @ ys).tolist()
    off = ys - design @ [log, *exponents]
    error = math.sqrt(off @ off / (len(points) - design.shape[1]))
    return Fit(log, tuple(exponents), error, tuple(map(tuple, inverse.tolist())), len(points))


def growths(
    run: Run, parameter: str, held_out: Sequence[float] = (), also: Sequence[str] = (), kind: str = TIME
) -> list[Growth]:
    """Returns the growth of every engine and phase with several values of the parameter, in the order of the run. A
    value whose phase was ended by its budget is left out, because its time depends on the budget. `also`: further
    parameters of the fit. The kind TRIAL has one growth of each engine."""
    done = (attempt for attempt in run.attempts if attempt.outcome == "ok")
    trials = grouped((id(run.cells[attempt.cell]), attempt.duration_ns) for attempt in done)
    groups: dict[object, list[tuple[Place, float, CellSummary]]] = {}
    names = (parameter, *also)
    for row in summarize(run):
        if row.cell.floor or not row.valid or any(sample.ended_by != DONE for sample in row.samples):
            continue
        values = [row.cell.params.get(name) for name in names]
        disk = row.bytes_on_disk if row.about.writes else None
        spans = trials.get(id(row.cell)) if row.phase == run.plan["phases"][0] else None
        figure = {TIME: row.elapsed_ns, DISK: disk, TRIAL: median(spans) if spans else None}[kind]
        if all(is_number(value) and float(str(value)) > 0 for value in values) and figure:
            place = tuple(float(str(value)) for value in values)
            others = sorted((name, value) for name, value in row.cell.params.items() if name not in names)
            group = groups.setdefault((row.phase, row.cell.tier, row.cell.asked, repr(others)), [])
            group.append((place if also else place[0], float(figure), row))
    growths = list[Growth]()
    for rows in (rows for rows in groups.values() if len(rows) > 1):
        figures = sorted((place, figure) for place, figure, _ in rows)
        points = tuple(point for point in figures if each(point[0])[0] not in held_out)
        curve = fit(points)
        held = [HeldOut(at, figure, curve.at(at)) for at, figure in figures if curve and each(at)[0] in held_out]
        items = {place: row.items for place, _, row in rows if row.items}
        row = rows[0][2]
        growths.append(Growth(row.cell, row.phase, points, curve, tuple(held), items, kind))
    return growths
