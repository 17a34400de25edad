"""What the answers must be: worked out in more digits than any engine has, where the machine has such, apart from
every engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import Wrong
from dyno.suites.compute.params import SINGLE
from dyno.suites.compute.port import GRID, X, Y

CHUNK = 1 << 14
"""Numbers that are looked at together: what is worked out of them is in the processor's caches, and never as large as
they are."""
RELATIVE: Mapping[str, float] = {"float32": 1e-4, "float64": 1e-10}
"""Of sums and averages, of themselves. All numbers are positive: added up in any order in their own type, but for one
after the other in 32 bits, which loses all that come once the sum is 2^24 times as large, they are well within it."""
SINES: Mapping[str, float] = {"float32": 1e-6, "float64": 1e-14}
CORRELATION: Mapping[str, float] = {"float32": 1e-4, "float64": 1e-9}

PROMISES = ("compute", "collect", "__dask_graph__")
"""What an answer can be asked for that is not there yet: NumPy would have the engine compute it, after its time was
taken."""


def numbers(seed: int, dtype: str, shape: int | tuple[int, int], stream: int) -> NDArray[Any]:
    """From 0 up to 1, of that type: the same for every engine."""
    kind: Any = np.float32 if dtype == SINGLE else np.float64
    return np.random.default_rng([seed, stream]).random(shape, dtype=kind)


def partners(x: NDArray[Any], seed: int) -> NDArray[Any]:
    """Numbers that correlate with those: each is halfway from its partner to one of its own."""
    made = numbers(seed, x.dtype.name, len(x), 2)
    made += x
    made /= 2
    return made


class Reference:
    """Of the arrays that are loaded."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        first = next(iter(arrays.values()))
        self._dtype = str(first.dtype)
        self._known: dict[str, Any] = {}

    def check(self, name: str, answer: Any) -> int:
        """Raises Wrong. Returns how many numbers were compared."""
        if name == "sin":
            return self._sines(answer)
        if name not in self._known:
            self._known[name] = getattr(self, f"_{name}")()
        right, got = self._known[name], found(name, answer)
        wanted = np.atleast_1d(np.asarray(right, dtype=np.float64))
        if got.shape != wanted.shape:
            raise Wrong(f"{name}: got {got.size} numbers, expected {wanted.size}")
        off = np.abs(got - wanted)
        allowed = self._allowed(name) * (np.ones_like(wanted) if name == "corr" else np.abs(wanted))
        # Not by what is larger: what is no number is neither.
        if not (off <= allowed).all():
            raise Wrong(f"{name}: got {got.tolist()}, expected {wanted.tolist()} to {self._allowed(name):g}")
        return len(wanted)

    def _allowed(self, name: str) -> float:
        return {"max": 0.0, "corr": CORRELATION[self._dtype]}.get(name, RELATIVE[self._dtype])

    def _sines(self, answer: Any) -> int:
        x, got = self._arrays[X], found("sin", answer)
        if got.shape != x.shape:
            raise Wrong(f"sin: got {got.size} numbers, expected {x.size}")
        # Of singles doubles are precise enough, and four times as fast.
        wide: Any = np.float64 if self._dtype == SINGLE else np.longdouble
        for start in range(0, len(x), CHUNK):
            right = np.sin(x[start : start + CHUNK].astype(wide))
            good = np.abs(got[start : start + CHUNK].astype(wide) - right) <= SINES[self._dtype]
            if not good.all():
                at = int(np.flatnonzero(~good)[0])
                raise Wrong(f"sin of number {start + at}: got {got[start + at]!r}, expected {right[at]!r}")
        return len(x)

    def _exact(self, *names: str) -> Iterator[tuple[NDArray[Any], ...]]:
        arrays = [self._arrays[name] for name in names]
        for start in range(0, len(arrays[0]), CHUNK):
            yield tuple(array[start : start + CHUNK].astype(np.longdouble) for array in arrays)

    def _sum(self) -> Any:
        return sum((part.sum() for (part,) in self._exact(X)), np.longdouble(0))

    def _avg(self) -> Any:
        return self._sum() / len(self._arrays[X])

    def _max(self) -> Any:
        return self._arrays[X].max()

    def _sum2d(self) -> Any:
        return sum((part.sum(axis=0) for (part,) in self._exact(GRID)), np.longdouble(0))

    def _corr(self) -> Any:
        sums = np.zeros(2, np.longdouble)
        for x, y in self._exact(X, Y):
            sums += [x.sum(), y.sum()]
        mean_x, mean_y = sums / len(self._arrays[X])
        products = np.zeros(3, np.longdouble)
        for x, y in self._exact(X, Y):
            dx, dy = x - mean_x, y - mean_y
            products += [(dx * dy).sum(), (dx * dx).sum(), (dy * dy).sum()]
        return products[0] / np.sqrt(products[1] * products[2])


def found(name: str, answer: Any) -> NDArray[Any]:
    """An answer as an array of one dimension of floats. Raises Wrong for what is none, or is only planned."""
    if any(hasattr(answer, word) for word in PROMISES) or not getattr(answer, "is_ready", lambda: True)():
        raise Wrong(f"{name}: got {type(answer).__name__}, which is planned and not computed")
    try:
        array = np.asarray(answer)
        made = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise Wrong(f"{name}: got {type(answer).__name__}, expected numbers: {error}") from None
    # Exactly an array: a class of the engine's own might say of itself that it is near anything.
    return np.array(made, copy=None, subok=False).reshape(-1)
