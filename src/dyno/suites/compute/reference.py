"""Inputs and expected answers of the compute suite. Answers have extended precision if the machine supports it."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import Wrong
from dyno.suites.compute import SINGLE
from dyno.suites.compute.port import GRID, X, Y

CHUNK = 1 << 14
"""Number of values in each step of a check, so that intermediate arrays fit into the processor's caches."""
RELATIVE: Mapping[str, float] = {"float32": 1e-4, "float64": 1e-10}
"""Relative error allowed for sums and averages. All numbers are positive, so any order of addition stays well within
it, except naive addition in float32, which loses a number once the sum is 2^24 times as large."""
SINES: Mapping[str, float] = {"float32": 1e-6, "float64": 1e-14}
CORRELATION: Mapping[str, float] = {"float32": 1e-4, "float64": 1e-9}

LAZY = ("compute", "collect", "__dask_graph__")
"""Attributes of lazy results. Converting such a result to an array would compute it after its time was measured."""


def numbers(seed: int, dtype: str, shape: int | tuple[int, int], stream: int) -> NDArray[Any]:
    """Returns uniform numbers in [0, 1), the same for every engine."""
    kind: Any = np.float32 if dtype == SINGLE else np.float64
    return np.random.default_rng([seed, stream]).random(shape, dtype=kind)


def generate(seed: int, dtype: str, size: int, width: int, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Generates the named arrays. A grid has `width` columns."""
    arrays: dict[str, NDArray[Any]] = {}
    if X in names:
        arrays[X] = numbers(seed, dtype, size, 1)
    if Y in names:
        # Correlated with `x`: the mean of each of its numbers and another random number.
        arrays[Y] = numbers(seed, dtype, size, 2)
        arrays[Y] += arrays[X]
        arrays[Y] /= 2
    if GRID in names:
        arrays[GRID] = numbers(seed, dtype, (size, width), 3)
    return arrays


class Reference:
    """Expected answers for the loaded arrays."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        first = next(iter(arrays.values()))
        self._dtype = str(first.dtype)
        self._answers: dict[str, Any] = {}

    def check(self, name: str, answer: Any) -> int:
        """Compares an answer. Returns the number of compared numbers. Raises Wrong."""
        if name == "sin":
            return self._sines(answer)
        if name not in self._answers:
            self._answers[name] = self._expected(name)
        got = as_array(name, answer)
        expected = np.atleast_1d(np.asarray(self._answers[name], dtype=np.float64))
        if got.shape != expected.shape:
            raise Wrong(f"{name}: got {got.size} numbers, expected {expected.size}")
        tolerance = {"max": 0.0, "corr": CORRELATION[self._dtype]}.get(name, RELATIVE[self._dtype])
        allowed = tolerance * (np.ones_like(expected) if name == "corr" else np.abs(expected))
        # Use `not <=` rather than `>`, so that NaN is wrong.
        if not (np.abs(got - expected) <= allowed).all():
            raise Wrong(f"{name}: got {got.tolist()}, expected {expected.tolist()} to {tolerance:g}")
        return len(expected)

    def _sines(self, answer: Any) -> int:
        x, got = self._arrays[X], as_array("sin", answer)
        if got.shape != x.shape:
            raise Wrong(f"sin: got {got.size} numbers, expected {x.size}")
        # For float32, doubles are precise enough and four times as fast.
        wide: Any = np.float64 if self._dtype == SINGLE else np.longdouble
        for start in range(0, len(x), CHUNK):
            expected = np.sin(x[start : start + CHUNK].astype(wide))
            good = np.abs(got[start : start + CHUNK].astype(wide) - expected) <= SINES[self._dtype]
            if not good.all():
                at = int(np.flatnonzero(~good)[0])
                raise Wrong(f"sin of number {start + at}: got {got[start + at]!r}, expected {expected[at]!r}")
        return len(x)

    def _chunks(self, *names: str) -> Iterator[tuple[NDArray[Any], ...]]:
        arrays = [self._arrays[name] for name in names]
        for start in range(0, len(arrays[0]), CHUNK):
            yield tuple(array[start : start + CHUNK].astype(np.longdouble) for array in arrays)

    def _expected(self, name: str) -> Any:
        if name == "max":
            return self._arrays[X].max()
        if name != "corr":
            parts = self._chunks(GRID if name == "sum2d" else X)
            total: Any = sum((part.sum(axis=0) for (part,) in parts), np.longdouble(0))
            return total / len(self._arrays[X]) if name == "avg" else total
        sums = np.zeros(2, np.longdouble)
        for x, y in self._chunks(X, Y):
            sums += [x.sum(), y.sum()]
        mean_x, mean_y = sums / len(self._arrays[X])
        products = np.zeros(3, np.longdouble)
        for x, y in self._chunks(X, Y):
            dx, dy = x - mean_x, y - mean_y
            products += [(dx * dy).sum(), (dx * dx).sum(), (dy * dy).sum()]
        return products[0] / np.sqrt(products[1] * products[2])


def as_array(name: str, answer: Any) -> NDArray[Any]:
    """Converts an answer to a one-dimensional array of floats. Raises Wrong if it is not numeric or not computed
    yet."""
    if any(hasattr(answer, attribute) for attribute in LAZY) or not getattr(answer, "is_ready", lambda: True)():
        raise Wrong(f"{name}: got {type(answer).__name__}, which is planned and not computed")
    try:
        array = np.asarray(answer)
        floats = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise Wrong(f"{name}: got {type(answer).__name__}, expected numbers: {error}") from None
    # Convert to the base class, since a subclass could override the comparison.
    return np.array(floats, copy=None, subok=False).reshape(-1)
