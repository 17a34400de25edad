"""Curves through a few points: powers, and sums of two terms, fitted by least squares, and what they predict.

This module must not name a suite.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul

from dyno.stats.estimate import two_sided

FEWEST_VALUES = 4
"""Values needed for a fit over one parameter; each further one takes one more. Three leave one degree of freedom, and
an interval of many orders of magnitude."""
CONFIDENCE = 0.95
LEAST_ERROR = 0.02
"""Least standard deviation from a curve that a forecast assumes, as a share. Real growth follows no curve exactly,
even if the points happen to."""
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

    def predict_at(self, place: Place) -> Predicted:
        """Predicts the figure at values over zero."""
        x = (1.0, *map(math.log, as_tuple(place)))
        middle = sum(map(mul, (self.log, *self.exponents), x))
        half = self._t * max(self.error, LEAST_ERROR) * math.sqrt(1 + _form(self.inverse, x))
        return _make_prediction(math.exp(middle), half)


Terms = tuple[Callable[[float], float], Callable[[float], float]]
"""Two functions of the value as a multiple of the smallest one, so at least 1."""


def _constant_term(x: float) -> float:
    return 1.0


def _linear_term(x: float) -> float:
    return x


def _square(x: float) -> float:
    return x * x


def _x_log_x(x: float) -> float:
    return x * math.log(x)


LINE: Terms = (_constant_term, _linear_term)
SUMS: tuple[Terms, ...] = (LINE, (_linear_term, _square), (_constant_term, math.log), (_linear_term, _x_log_x))
"""Sums of two terms that growth may follow, besides a power."""


@dataclass(frozen=True)
class Sum:
    """Fitted sum of two terms: a * f(x) + b * g(x), where x is the value, or the product of several, as a multiple of
    the smallest."""

    terms: Terms
    factors: tuple[float, float]
    smallest: float
    error: float
    """Standard deviation of the medians around the sum, as a share of it."""
    inverse: tuple[tuple[float, ...], ...]
    """Inverse of the weighted design matrix times its transpose."""
    count: int

    def predict_at(self, place: Place) -> Predicted:
        """Predicts the figure at values over zero."""
        value = math.prod(as_tuple(place)) / self.smallest
        x = tuple(term(value) for term in self.terms)
        # A line with a negative fixed part may be below zero at a small value.
        middle = max(sum(map(mul, self.factors, x)), 1.0)
        t = two_sided(CONFIDENCE, self.count - 2)
        half = t * max(self.error, LEAST_ERROR) * math.sqrt(1 + _form(self.inverse, x) / middle**2)
        return _make_prediction(middle, half)


def _form(matrix: Sequence[Sequence[float]], x: Sequence[float]) -> float:
    """Returns the quadratic form x' * matrix * x."""
    return sum((sum(map(mul, row, x)) * value for row, value in zip(matrix, x, strict=True)), 0.0)


def _make_prediction(middle: float, half: float) -> Predicted:
    """Returns the prediction whose interval reaches `half` to either side on the logarithmic scale."""
    # e to the power of 710 is too large for a float.
    wide = math.exp(min(half, 300.0))
    return Predicted(middle, middle / wide, middle * wide)


def as_tuple(place: Place) -> tuple[float, ...]:
    if isinstance(place, tuple):
        return place
    return (place,)


def fit(points: Sequence[tuple[Place, float]]) -> Fit | None:
    """Fits values and figures, which must be over zero. Returns None for too few values."""
    import numpy as np

    places = sorted({as_tuple(place) for place, _ in points})
    if len(places) < FEWEST_VALUES - 1 + len(places[0] if places else ()):
        return None
    design = np.array([(1.0, *map(math.log, as_tuple(place))) for place, _ in points])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    ys = np.log([figure for _, figure in points])
    inverse = np.linalg.inv(design.T @ design)
    log, *exponents = (inverse @ design.T @ ys).tolist()
    off = ys - design @ [log, *exponents]
    error = math.sqrt(off @ off / (len(points) - design.shape[1]))
    return Fit(log, tuple(exponents), error, tuple(map(tuple, inverse.tolist())), len(points))


def fit_sum(points: Sequence[tuple[Place, float]], terms: Terms) -> Sum | None:
    """Fits figures, which must be over zero, to a sum of two terms, by least squares of relative deviations. Returns
    None for too few values, and if the second term doesn't grow."""
    import numpy as np

    values = [math.prod(as_tuple(place)) for place, _ in points]
    if len({as_tuple(place) for place, _ in points}) < FEWEST_VALUES:
        return None
    smallest = min(values)
    figures = np.array([figure for _, figure in points])
    design = np.array([[term(value / smallest) for term in terms] for value in values]) / figures[:, None]
    if np.linalg.matrix_rank(design) < 2:
        return None
    inverse = np.linalg.inv(design.T @ design)
    first, second = (inverse @ design.T @ np.ones(len(points))).tolist()
    if second <= 0:
        return None
    off = 1 - design @ [first, second]
    error = math.sqrt(off @ off / (len(points) - 2))
    return Sum(terms, (first, second), smallest, error, tuple(map(tuple, inverse.tolist())), len(points))


def rising_sums(points: Sequence[tuple[Place, float]]) -> tuple[Sum, ...]:
    """Returns the sums with no negative term: others fall, or turn negative, somewhere beyond the points."""
    sums = (fit_sum(points, terms) for terms in SUMS)
    return tuple(each for each in sums if each is not None and min(each.factors) >= 0)
