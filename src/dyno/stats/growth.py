"""Growth: how the time of a phase, or the size on disk, grows with parameters, and what is forecast of it.

Powers of the parameters are fitted: log(time) = a + b log(value) + c log(other value), by least squares over the
medians of the values. The deviations are assumed to be normal, independent and of equal size. They include the
difference between the true curve and a power. The 95 % interval is a prediction interval: the range in which the
median of a further value would be measured. It widens with the distance on the logarithmic scale (Draper and Smith,
Applied Regression Analysis, 1998, 3.1 and 5.1).

A store's size has a fixed part, which a power takes for slower growth. So where items are in proportion to the
parameters, the forecast of a size is a line: size = fixed + share * items, by least squares of relative deviations.

Beyond the largest value growth may change: data may outgrow a cache, or a tree may get a further level. So an
extrapolation is valid only if growth continues, and every report of it must say so. To test an extrapolation,
values can be held out: they are left out of the fit and compared with its prediction.

This module must not name a suite.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from statistics import median

from dyno.contracts.cell import Cell
from dyno.results import Run
from dyno.stats.estimate import two_sided
from dyno.stats.summary import CellSummary, grouped, summarize
from dyno.stats.sweep import is_number

FEWEST_VALUES = 4
"""Values needed for a fit over one parameter; each further one takes one more. Three leave one degree of freedom, and
an interval of many orders of magnitude."""
CONFIDENCE = 0.95
TIME, DISK, TRIAL = "time", "disk", "whole trial"
"""Kinds of figures: time of a phase, size on disk after a phase that writes, and time of all that a trial does."""
PROPORTION = 1e-3
"""Items that differ by less from a proportion to the parameters are in proportion."""
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


@dataclass(frozen=True)
class Line:
    """Fitted size in bytes: fixed + share * items."""

    fixed: float
    share: float
    """Bytes of an item."""
    items: float
    """Items at the value 1 of all parameters."""
    error: float
    """Standard deviation of the medians around the line, as a share of the line."""
    inverse: tuple[tuple[float, float], ...]
    """Inverse of the weighted design matrix times its transpose."""
    count: int

    def at(self, place: Place) -> Predicted:
        """Predicts the size at values over zero."""
        x = (1.0, self.items * math.prod(each(place)))
        middle = self.fixed + self.share * x[1]
        distance = sum(sum(map(mul, row, x)) * value for row, value in zip(self.inverse, x, strict=True))
        half = two_sided(CONFIDENCE, self.count - 2) * self.error * math.sqrt(middle**2 + distance)
        return Predicted(middle, max(middle - half, 0.0), middle + half)


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
    line: Line | None = None
    """Fit of a size by items. None for other figures, and if items are not in proportion to the parameters."""

    @property
    def forecast(self) -> "Fit | Line | None":
        """What predicts figures at other values."""
        return self.line or self.fit

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


def fit_line(points: Sequence[tuple[Place, float]], items: Mapping[Place, int]) -> Line | None:
    """Fits sizes to items. Returns None for too few values, if items are not in proportion to the product of the
    parameters, and if sizes don't grow."""
    import numpy as np

    places = {each(place) for place, _ in points}
    shares = [items[place] / math.prod(each(place)) for place, _ in points if place in items]
    if len(places) < FEWEST_VALUES or len(shares) < len(points) or max(shares) > min(shares) * (1 + PROPORTION):
        return None
    per = sum(shares) / len(shares)
    counts = np.array([per * math.prod(each(place)) for place, _ in points])
    sizes = np.array([figure for _, figure in points])
    design = np.stack([1 / sizes, counts / sizes], axis=1)
    if np.linalg.matrix_rank(design) < 2:
        return None
    inverse = np.linalg.inv(design.T @ design)
    fixed, share = (inverse @ design.T @ np.ones(len(points))).tolist()
    if share <= 0:
        return None
    off = 1 - design @ [fixed, share]
    error = math.sqrt(off @ off / (len(points) - 2))
    (a, b), (c, d) = inverse.tolist()
    return Line(fixed, share, per, error, ((a, b), (c, d)), len(points))


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
        items = {place: row.items for place, _, row in rows if row.items}
        curve, line = fit(points), fit_line(points, items) if kind == DISK else None
        best = line or curve
        held = [HeldOut(at, figure, best.at(at)) for at, figure in figures if best and each(at)[0] in held_out]
        row = rows[0][2]
        growths.append(Growth(row.cell, row.phase, points, curve, tuple(held), items, kind, line))
    return growths
