"""What sums, means and deviations must be: added up from the rows themselves, as they are acknowledged, apart from
every engine. Nothing here stores a row.
"""

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
"""By which a sum of floats may be off, of itself. Adding up in any order is well below it: the values are positive,
and the roundings of a million additions mostly cancel. Values cut to 32 bits are off by some 1e-11 and more."""
DEVIATION_ERROR = 1e-9
STATS = ("quantity", "total_price", "resource_uid")
"""The columns whose mean and deviation are asked for."""
_CENTRES = {**{name: sum(ends) / 2 for name, ends in RANGES.items()}, "resource_uid": 25_000.0}
"""Near the mean, from which squares are taken: these do not cancel."""
_INTEGERS, _FLOATS = (int, np.int64, np.uint64), (float, np.float64)


class Reference:
    """Of all rows that were given so far."""

    def __init__(self) -> None:
        self.rows = 0
        self._whole = {name: 0 for name in NUMERIC if BY_NAME[name].exact}
        # Of more digits than a double has, where the machine has such.
        self._real = {name: np.longdouble(0) for name in NUMERIC if not BY_NAME[name].exact}
        self._squares = {name: np.longdouble(0) for name in STATS}

    def add(self, chunk: Chunk, times: int = 1) -> None:
        """Or takes it away: times -1."""
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
        """Mean and standard deviation of the whole."""
        total = np.longdouble(self.sum(name)) if name in self._whole else self._real[name]
        mean = total / self.rows
        off = mean - _CENTRES[name]
        return float(mean), math.sqrt(float(self._squares[name] / self.rows - off * off))

    # -- what engines say ---------------------------------------------------------------------------------

    def check_sum(self, name: str, answer: Any) -> int:
        """Raises Wrong. Returns 1: how many answers were compared."""
        right, kind = self.sum(name), type(answer)
        known, wanted = (_INTEGERS, "a whole number") if BY_NAME[name].exact else (_FLOATS, "a float")
        if not any(kind is each for each in known):
            raise Wrong(f"the sum of {name} is {_kind(answer)}, expected {wanted}")
        if BY_NAME[name].exact:
            if not same(int(answer), right):
                raise Wrong(f"the sum of {name}: got {answer}, expected {right}")
        elif not near(float(answer), float(right), SUM_ERROR):
            raise Wrong(f"the sum of {name}: got {float(answer)!r}, expected {right!r} to {SUM_ERROR:g} of it")
        return 1

    def check_stats(self, names: Sequence[str], answer: Any) -> int:
        if type(answer) is not list or len(answer) != len(names):
            raise Wrong(f"means and deviations are {_kind(answer)}, expected a list of {len(names)}")
        for name, pair in zip(names, answer, strict=True):
            if type(pair) is not tuple or len(pair) != 2 or any(type(part) is not float for part in pair):
                raise Wrong(f"mean and deviation of {name} are {_kind(pair)}, expected two floats")
            right = self.stats(name)
            for what, got, wanted, error in zip(
                ("mean", "standard deviation"), pair, right, (SUM_ERROR, DEVIATION_ERROR), strict=True
            ):
                if not near(got, wanted, error):
                    raise Wrong(f"the {what} of {name}: got {got!r}, expected {wanted!r} to {error:g} of it")
        return 2 * len(names)


def near(got: float, right: float, error: float) -> bool:
    """Whether it is as near as that, of itself; nothing that is no number is."""
    return abs(got - right) <= error * abs(right)


def _kind(answer: Any) -> str:
    return f"of type {type(answer).__name__}"
