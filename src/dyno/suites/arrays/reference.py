"""Expected sums, means and deviations. Rows are added up as they are acknowledged, and not stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyno.contracts.equality import same
from dyno.contracts.model import Wrong
from dyno.suites.arrays.dataset import RANGES
from dyno.suites.arrays.port import BY_NAME, NUMERIC, Chunk

SUM_ERROR = 1e-12
"""Relative error allowed for a sum of floats. Any order of addition stays well below it, since the values are
positive and rounding errors of a million additions mostly cancel. Values stored as 32-bit floats are off by 1e-11 and
more."""
DEVIATION_ERROR = 1e-9
STATS = ("quantity", "total_price", "resource_uid")
"""Columns of the phase read-column-stats."""
_CENTRES = {**{name: sum(ends) / 2 for name, ends in RANGES.items()}, "resource_uid": 25_000.0}
"""Values near the mean, so that squared differences from them don't suffer from cancellation."""
_INTEGERS, _FLOATS = (int, np.int64, np.uint64), (float, np.float64)


class Reference:
    """Sums of the rows that were added so far."""

    def __init__(self) -> None:
        self.rows = 0
        self._whole = {name: 0 for name in NUMERIC if BY_NAME[name].exact}
        # longdouble has more digits than a double, if the machine supports that.
        self._real = {name: np.longdouble(0) for name in NUMERIC if not BY_NAME[name].exact}
        self._squares = {name: np.longdouble(0) for name in STATS}

    def add(self, chunk: Chunk, times: int = 1) -> None:
        """Adds rows, or subtracts them with times=-1."""
        for name in NUMERIC:
            if name not in chunk:
                continue
            values = chunk[name]
            if name in self._whole:
                self._whole[name] += times * int(values.sum(dtype=np.int64))
            else:
                self._real[name] += times * values.sum(dtype=np.longdouble)
            if name in self._squares:
                off = values.astype(np.longdouble) - _CENTRES[name]
                self._squares[name] += times * (off * off).sum()

    def count(self, rows: int) -> None:
        self.rows += rows

    def sum(self, name: str) -> int | float:
        return self._whole[name] if name in self._whole else float(self._real[name])

    def stats(self, name: str) -> tuple[float, float]:
        """Returns mean and population standard deviation."""
        total = np.longdouble(self.sum(name)) if name in self._whole else self._real[name]
        mean = total / self.rows
        off = mean - _CENTRES[name]
        return float(mean), math.sqrt(float(self._squares[name] / self.rows - off * off))

    # -- answers of engines -------------------------------------------------------------------------------

    def check_sum(self, name: str, answer: Any) -> int:
        """Compares an engine's sum. Returns the number of compared answers. Raises Wrong."""
        expected = self.sum(name)
        types, words = (_INTEGERS, "a whole number") if BY_NAME[name].exact else (_FLOATS, "a float")
        if not any(type(answer) is each for each in types):
            raise Wrong(f"the sum of {name} is of type {type(answer).__name__}, expected {words}")
        if BY_NAME[name].exact:
            if not same(int(answer), expected):
                raise Wrong(f"the sum of {name}: got {answer}, expected {expected}")
        elif not near(float(answer), float(expected), SUM_ERROR):
            raise Wrong(f"the sum of {name}: got {float(answer)!r}, expected {expected!r} within {SUM_ERROR:g}")
        return 1

    def check_stats(self, names: Sequence[str], answer: Any) -> int:
        """Compares an engine's means and deviations. Returns the number of compared answers. Raises Wrong."""
        if type(answer) is not list or len(answer) != len(names):
            raise Wrong(
                f"means and deviations are of type {type(answer).__name__}, expected a list of {len(names)} pairs"
            )
        for name, pair in zip(names, answer, strict=True):
            if type(pair) is not tuple or len(pair) != 2 or any(type(part) is not float for part in pair):
                raise Wrong(f"mean and deviation of {name} are of type {type(pair).__name__}, expected two floats")
            kinds = (("mean", SUM_ERROR), ("standard deviation", DEVIATION_ERROR))
            for (what, error), got, expected in zip(kinds, pair, self.stats(name), strict=True):
                if not near(got, expected, error):
                    raise Wrong(f"the {what} of {name}: got {got!r}, expected {expected!r} within {error:g}")
        return 2 * len(names)


def near(got: float, expected: float, error: float) -> bool:
    """Returns whether the relative error is at most `error`. False for NaN."""
    return abs(got - expected) <= error * abs(expected)
