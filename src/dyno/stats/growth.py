"""Growth: how the time of a phase, or the size on disk, grows with parameters, and what is forecast of it.

Powers of the parameters are fitted: log(time) = a + b log(value) + c log(other value), by least squares over the
medians of the values. The deviations are assumed to be normal, independent and of equal size. The 95 % interval is a
prediction interval: the range in which the median of a further value would be measured. It widens with the distance
on the logarithmic scale (Draper and Smith, Applied Regression Analysis, 1998, 3.1 and 5.1).

Few points follow several curves equally well, and these part beyond the largest value: a fixed part and a share look
like a power below 1. So with one parameter, sums of two terms are fitted too, and the interval of a forecast spans
those of all curves that deviate little more than the best one. A size is forecast as a line, size = fixed + share *
items, if items are in proportion to the parameters.

A forecast is refused, with a reason, if the fit can't carry it: see `Growth.refusal`. Beyond the largest value growth
may change: data may outgrow a cache, or a tree may get a further level. So an extrapolation is valid only if growth
continues, and every report of it must say so. To test an extrapolation, values can be held out: they are left out of
the fit and compared with its prediction.

This module must not name a suite.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from dyno.contracts.cell import Cell
from dyno.results import Run
from dyno.stats.curves import (
    CONFIDENCE,
    FEWEST_VALUES,
    LEAST_ERROR,
    LINE,
    Fit,
    Place,
    Predicted,
    Sum,
    as_tuple,
    fit,
    fit_sum,
    rising_sums,
)
from dyno.stats.estimate import two_sided
from dyno.stats.summary import CellSummary, group_values, summarize
from dyno.stats.sweep import is_number

REACH = 10
"""Largest distance of a forecast: this many times the largest measured value, or the smallest divided by it. Up to
there, intervals hold for the simulated laws of tests/stats/test_growth.py."""
WIDEST = 30
"""If the interval of a forecast spans a larger factor, it is refused."""
GROWN = 2
"""Factor by which sizes on disk must grow from the least to the largest. Else most of the size is a fixed part, such
as files that an engine allocates in advance."""
TIME = "time"
DISK = "disk"
TRIAL = "whole trial"
"""Kinds of figures: time of a phase, size on disk after a phase that writes, and time of all that a trial does."""
PROPORTION = 1e-3
"""Items that differ by less from a proportion to the parameters are in proportion."""
DONE = "count"
"""Value of `ended_by` for a phase that did all its operations."""
BUDGET_ENDED = "its budget ended it"


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
    line: Sum | None = None
    """Fit of a size by items. None for other figures, and if items are not in proportion to the parameters."""
    sums: tuple[Sum, ...] = ()
    """Further curves through the same points."""
    left_out: tuple[tuple[Place, str], ...] = ()
    """Values that were tried and have no figure, each with the reason."""
    parts: tuple["Growth", ...] = ()
    """Growth of each phase of a whole trial."""

    @property
    def bytes_per_item(self) -> float | None:
        """Slope of a size's line."""
        if self.line is None:
            return None
        place, items = next(iter(self.items.items()))
        return self.line.factors[1] / self.line.smallest * math.prod(as_tuple(place)) / items

    def predict(self, place: Place) -> Predicted | None:
        """Returns the figure at a place by the best curve, with an interval that spans those of all curves that
        deviate little more. Returns None without a fit. `refusal` says whether it may be reported."""
        if self.fit:
            return self._predict(self.fit, place)
        return None

    def _predict(self, power: Fit, place: Place) -> Predicted:
        if self.line:
            curves: list[Fit | Sum] = [self.line]
        else:
            curves = [power, *self.sums]
        best = min(curves, key=lambda curve: curve.error)
        # Close to the ratio of two standard deviations that differ significantly: the F test's, for 2 to 8 degrees
        # of freedom.
        most = two_sided(CONFIDENCE, best.count - 2) * max(best.error, LEAST_ERROR)
        predicted = [curve.predict_at(place) for curve in curves if curve.error <= most]
        middle = best.predict_at(place).middle
        return Predicted(middle, min(each.low for each in predicted), max(each.high for each in predicted))

    def refusal(self, place: Place) -> str | None:
        """Returns the reason if the fit can't carry a forecast at a place; else None."""
        values = len({as_tuple(at) for at, _ in self.points})
        if self.fit is None and values < (needed := FEWEST_VALUES - 1 + len(as_tuple(place))):
            return f"{values} of the values have a figure, and a fit takes {needed}"
        if self.fit is None:
            return "the values of one parameter don't vary, or vary with another's"
        for value, measured in zip(
            as_tuple(place), zip(*(as_tuple(at) for at, _ in self.points), strict=True), strict=True
        ):
            if value > max(measured) * REACH:
                far = f"{value:g} is {value / max(measured):,.3g} times the largest measured value"
                return f"{far}; up to {REACH} times is forecast"
            if value < min(measured) / REACH:
                return f"{value:g} is less than a tenth of the smallest measured value"
        figures = [figure for _, figure in self.points]
        if self.kind == DISK and max(figures) < GROWN * min(figures):
            grown = f"the files grew only {max(figures) / min(figures):.2f}-fold over the measured values"
            return f"{grown}: most of their space may be allocated in advance"
        predicted = self._predict(self.fit, place)
        if predicted.high > WIDEST * predicted.low:
            factor = predicted.high / predicted.low
            return f"its interval spans a factor of {factor:,.2g}: measure more values, wider apart, in more trials"
        parts = {part.phase: forecast.middle for part in self.parts if (forecast := part.predict(place))}
        if sum(parts.values()) > predicted.middle:
            longest = max(parts, key=lambda phase: parts[phase])
            return f"its parts would take longer than the whole, {longest} most of all: starting hides how they grow"
        return None

    def items_at(self, value: float) -> float | None:
        """Returns the number of items at a value of one parameter; None if it is not proportional to the value."""
        shares = {count / as_tuple(at)[0] for at, count in self.items.items()}
        if shares and max(shares) - min(shares) <= 1e-9 * max(shares):
            return next(iter(shares)) * value
        return None


def fit_line(points: Sequence[tuple[Place, float]], items: Mapping[Place, int]) -> Sum | None:
    """Fits sizes to items. Returns None for too few values, if items are not in proportion to the product of the
    parameters, and if sizes don't grow."""
    shares = [items[place] / math.prod(as_tuple(place)) for place, _ in points if place in items]
    if not shares or len(shares) < len(points) or max(shares) > min(shares) * (1 + PROPORTION):
        return None
    return fit_sum(points, LINE)


@dataclass
class _Group:
    """Rows of one engine and phase that differ only in the fitted parameters."""

    row: CellSummary
    figures: dict[Place, float] = field(default_factory=dict)
    items: dict[Place, int] = field(default_factory=dict)
    left_out: dict[Place, str] = field(default_factory=dict)


def growths(
    run: Run, parameter: str, held_out: Sequence[float] = (), also: Sequence[str] = (), kind: str = TIME
) -> list[Growth]:
    """Returns the growth of every engine and phase with several values of the parameter, in the order of the run. A
    value whose phase was ended by its budget is left out, because its time depends on the budget; the growth names
    it. `also`: further parameters of the fit. The kind TRIAL has one growth of each engine."""
    parts = []
    if kind == TRIAL:
        parts = growths(run, parameter, held_out, also)
    names = (parameter, *also)
    fitted = list[Growth]()
    for key, group in _groups(run, names, kind).items():
        budget_ended = BUDGET_ENDED in group.left_out.values()
        if len(group.figures) + len(group.left_out) < 2 or not (group.figures or budget_ended):
            continue
        figures = sorted(group.figures.items())
        points = tuple(point for point in figures if as_tuple(point[0])[0] not in held_out)
        growth = Growth(
            group.row.cell,
            group.row.phase,
            points,
            fit(points),
            (),
            group.items,
            kind,
            fit_line(points, group.items) if kind == DISK else None,
            () if also else rising_sums(points),
            tuple(sorted(group.left_out.items())),
            tuple(part for part in parts if _key(part.cell, part.phase, names)[1:] == key[1:]),
        )
        held = [
            HeldOut(place, figure, predicted)
            for place, figure in figures
            if as_tuple(place)[0] in held_out and (predicted := growth.predict(place))
        ]
        fitted.append(replace(growth, held_out=tuple(held)))
    return fitted


def _key(cell: Cell, phase: str, names: Sequence[str]) -> tuple[object, ...]:
    """Returns what the rows of a growth have in common, the phase first."""
    others = sorted((name, value) for name, value in cell.params.items() if name not in names)
    return phase, cell.tier, cell.row, repr(others)


def _groups(run: Run, names: Sequence[str], kind: str) -> dict[tuple[object, ...], _Group]:
    done = (attempt for attempt in run.attempts if attempt.outcome == "ok")
    trials = group_values((id(run.cells[attempt.cell]), attempt.duration_ns) for attempt in done)
    groups: dict[tuple[object, ...], _Group] = {}
    for row in summarize(run):
        values = [row.cell.params.get(name) for name in names]
        numbers = [float(str(value)) for value in values if is_number(value)]
        whole = kind == TRIAL and row.phase != run.plan.phases[0]
        if row.cell.floor or whole or len(numbers) < len(names) or min(numbers) <= 0:
            continue
        if kind == DISK and not row.about.writes:
            continue
        if len(numbers) > 1:
            place: Place = tuple(numbers)
        else:
            place = numbers[0]
        group = groups.setdefault(_key(row.cell, row.phase, names), _Group(row))
        if not row.valid:
            group.left_out[place] = row.why or "it has no figure"
        elif any(sample.ended_by != DONE for sample in row.samples):
            group.left_out[place] = BUDGET_ENDED
        elif figure := _figure(row, kind, trials.get(id(row.cell))):
            group.figures[place] = figure
            if row.items:
                group.items[place] = row.items
    return groups


def _figure(row: CellSummary, kind: str, trials: Sequence[int] | None) -> float | None:
    if kind == TRIAL:
        if trials:
            return median(trials)
        return None
    if kind == TIME:
        return row.elapsed_ns
    return row.bytes_on_disk
