"""Fits how the time of a phase grows with a numeric parameter, and extrapolates it to values that were not measured.

A power of the parameter is fitted: log(time) = a + b log(value), by least squares over the medians of the values. The
deviations are assumed to be normal, independent and of equal size. They include the difference between the true curve
and a power. The 95 % interval is a prediction interval: the range in which the median of a further value would be
measured. It widens with the distance on the logarithmic scale (Draper and Smith, Applied Regression Analysis, 1998,
1.4 and 3.1).

Beyond the largest value growth may change: data may outgrow a cache, or a tree may get a further level. So an
extrapolation is valid only if growth continues, and every report of it must say so. To test an extrapolation, values
can be held out: they are left out of the fit and compared with its prediction.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dyno.contracts.cell import Cell
from dyno.results import Run
from dyno.stats.estimate import two_sided
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.sweep import is_number

FEWEST_VALUES = 4
"""Number of values needed for a fit. Three leave one degree of freedom, and an interval of many orders of
magnitude."""
CONFIDENCE = 0.95
DONE = "count"
"""Value of `ended_by` for a phase that did all its operations."""


@dataclass(frozen=True)
class Predicted:
    """The predicted time at a value, in ns, and its interval."""

    ns: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """A fitted power of the parameter: log(time) = log + exponent * log(value)."""

    log: float
    exponent: float
    error: float
    """Standard deviation of the medians' logarithms around the curve."""
    middle: float
    """Mean of the values' logarithms."""
    spread: float
    """Sum of the squared distances of the values' logarithms from `middle`."""
    count: int

    @property
    def _t(self) -> float:
        return two_sided(CONFIDENCE, self.count - 2)

    def exponent_interval(self) -> tuple[float, float]:
        half = self._t * self.error / math.sqrt(self.spread)
        return self.exponent - half, self.exponent + half

    def at(self, value: float) -> Predicted:
        """Predicts the time at a value over zero."""
        x = math.log(value)
        middle = self.log + self.exponent * x
        half = self._t * self.error * math.sqrt(1 + 1 / self.count + (x - self.middle) ** 2 / self.spread)
        return Predicted(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


@dataclass(frozen=True)
class HeldOut:
    """A value that was left out of the fit."""

    value: float
    measured_ns: float
    predicted: Predicted

    @property
    def inside(self) -> bool:
        return self.predicted.low <= self.measured_ns <= self.predicted.high


@dataclass(frozen=True)
class Growth:
    """Growth of one engine in one phase, with all other parameters the same."""

    cell: Cell
    """One of the engine's cells."""
    phase: str
    points: tuple[tuple[float, float], ...]
    """The fitted values and the medians of the time in ns, in ascending order of values."""
    fit: Fit | None
    """None if there are too few values."""
    held_out: tuple[HeldOut, ...]
    items: Mapping[float, int]
    """Items that the throughput counts, by value."""

    def items_at(self, value: float) -> float | None:
        """Returns the number of items at a value; None if the number is not proportional to the value."""
        shares = {count / at for at, count in self.items.items()}
        return next(iter(shares)) * value if shares and max(shares) - min(shares) <= 1e-9 * max(shares) else None


def fit(points: Sequence[tuple[float, float]]) -> Fit | None:
    """Fits values and times, which must be over zero. Returns None for fewer than four values."""
    if len({value for value, _ in points}) < FEWEST_VALUES:
        return None
    xs, ys = [math.log(value) for value, _ in points], [math.log(time) for _, time in points]
    middle, height, count = fmean(xs), fmean(ys), len(points)
    spread = sum((x - middle) ** 2 for x in xs)
    exponent = sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True)) / spread
    log = height - exponent * middle
    off = sum((y - log - exponent * x) ** 2 for x, y in zip(xs, ys, strict=True))
    return Fit(log, exponent, math.sqrt(off / (count - 2)), middle, spread, count)


def growths(run: Run, parameter: str, held_out: Sequence[float] = ()) -> list[Growth]:
    """Returns the growth of every engine and phase with several values of the parameter, in the order of the run. A
    value whose phase was ended by its budget is left out, because its time depends on the budget."""
    groups: dict[object, list[CellSummary]] = {}
    for row in summarize(run):
        if row.cell.floor or not row.valid or any(sample.ended_by != DONE for sample in row.samples):
            continue
        value = row.cell.params.get(parameter)
        if is_number(value) and float(str(value)) > 0 and row.elapsed_ns:
            others = sorted((name, each) for name, each in row.cell.params.items() if name != parameter)
            groups.setdefault((row.phase, row.cell.tier, row.cell.asked, repr(others)), []).append(row)
    growths = list[Growth]()
    for rows in (rows for rows in groups.values() if len(rows) > 1):
        times = sorted((float(str(row.cell.params[parameter])), float(row.elapsed_ns or 0)) for row in rows)
        points = tuple(point for point in times if point[0] not in held_out)
        curve = fit(points)
        held = [HeldOut(value, time, curve.at(value)) for value, time in times if curve and value in held_out]
        items = {float(str(row.cell.params[parameter])): row.items for row in rows if row.items}
        growths.append(Growth(rows[0].cell, rows[0].phase, points, curve, tuple(held), items))
    return growths
