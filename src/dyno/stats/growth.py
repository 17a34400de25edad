"""How the time of a phase grows with a numeric parameter, and what it would be at values that nobody measured.

A power of the parameter is fitted: log(time) = a + b log(value), by least squares over the medians of the values,
each of which counts once. Its deviations are taken as normal, independent and of one size, and among them is all by
which the curve is not such a power: so the interval is for medians that are scattered about it as those measured are.
It is one of prediction, of 95 %: it covers where one further value's median would be measured, not where the curve
is, and widens with the distance on the logarithmic scale (Draper and Smith, Applied Regression Analysis, 1998, 1.4
and 3.1).

Nothing can be known of what begins beyond the largest value: a cache that is outgrown, a level that a tree gets. An
extrapolation says what comes if it goes on as it did, and whoever shows it has to say so. Whether it holds is tried
by values that are held out: left out of the fit, and compared with what it predicts for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dyno.contracts.sample import Cell
from dyno.results import Run
from dyno.stats.student import two_sided
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.sweep import is_number

FEWEST_VALUES = 4
"""Of the parameter. Three would leave one degree of freedom, and an interval over many orders of magnitude."""
CONFIDENCE = 0.95
DONE = "count"
"""What ended a phase that was done whole."""


@dataclass(frozen=True)
class Predicted:
    """The time at a value, in ns, and between what a measurement of it would lie."""

    ns: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """log(time) = log + exponent log(value)."""

    log: float
    exponent: float
    error: float
    """Standard deviation of a median about the curve, of the logarithm."""
    middle: float
    """Mean of the logarithms of the values."""
    spread: float
    """Sum of the squares of their distances from it."""
    count: int

    @property
    def _t(self) -> float:
        return two_sided(CONFIDENCE, self.count - 2)

    def exponent_interval(self) -> tuple[float, float]:
        half = self._t * self.error / math.sqrt(self.spread)
        return self.exponent - half, self.exponent + half

    def at(self, value: float) -> Predicted:
        """A value over zero."""
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
    """Of one engine in one phase, all other parameters the same."""

    cell: Cell
    """One of its cells."""
    phase: str
    points: tuple[tuple[float, float], ...]
    """Values and medians of the time in ns, the least value first: those that are fitted."""
    fit: Fit | None
    """None where there are too few values."""
    held_out: tuple[HeldOut, ...]
    items: Mapping[float, int]
    """What the throughput counts, by value."""

    def items_at(self, value: float) -> float | None:
        """How many there would be: None where they are not in proportion to the value."""
        shares = {count / at for at, count in self.items.items()}
        return next(iter(shares)) * value if shares and max(shares) - min(shares) <= 1e-9 * max(shares) else None


def fit(points: Sequence[tuple[float, float]]) -> Fit | None:
    """Of values over zero with times over zero; None of fewer than four values."""
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
    """Of every engine and phase with several values of the parameter, in the order of the run. Of phases that their
    budget ended the time says nothing, and these values are left out."""
    found: dict[object, list[CellSummary]] = {}
    for row in summarize(run):
        if row.cell.floor or not row.valid or any(sample.ended_by != DONE for sample in row.samples):
            continue
        value = row.cell.params.get(parameter)
        if is_number(value) and float(str(value)) > 0 and row.elapsed_ns:
            others = sorted((name, each) for name, each in row.cell.params.items() if name != parameter)
            found.setdefault((row.phase, row.cell.tier, row.cell.asked, repr(others)), []).append(row)
    return [_growth(parameter, rows, held_out) for rows in found.values() if len(rows) > 1]


def _growth(parameter: str, rows: Sequence[CellSummary], held_out: Sequence[float]) -> Growth:
    times = sorted((float(str(row.cell.params[parameter])), float(row.elapsed_ns or 0)) for row in rows)
    points = tuple(point for point in times if point[0] not in held_out)
    found = fit(points)
    held = [HeldOut(value, time, found.at(value)) for value, time in times if found and value in held_out]
    items = {float(str(row.cell.params[parameter])): row.items for row in rows if row.items}
    return Growth(rows[0].cell, rows[0].phase, points, found, tuple(held), items)
