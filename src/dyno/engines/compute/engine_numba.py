"""Numba: loops in Python, compiled when they are first called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import Functions, Library, declare, of, shaped


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`. Sums are doubles, made in whatever order is the fastest."""

    def __init__(self, engine: Library) -> None:
        import numba
        import numpy as np

        self._numba, self._threads = numba, int(str(engine.options["threads"])) or int(numba.config.NUMBA_NUM_THREADS)
        if self._threads > 1:
            numba.set_num_threads(self._threads)
        compiled = numba.njit(fastmath={"reassoc", "nsz", "contract", "nnan"}, parallel=self._threads > 1)
        each = numba.prange

        @compiled
        def total(x):  # type: ignore[no-untyped-def]
            found = 0.0
            for at in each(len(x)):
                found += x[at]
            return found

        @compiled
        def average(x):  # type: ignore[no-untyped-def]
            found = 0.0
            for at in each(len(x)):
                found += x[at]
            return found / len(x)

        @compiled
        def largest(x):  # type: ignore[no-untyped-def]
            found = x[0]
            for at in each(len(x)):
                found = max(found, x[at])
            return found

        @compiled
        def sines(x):  # type: ignore[no-untyped-def]
            found = np.empty_like(x)
            for at in each(len(x)):
                found[at] = np.sin(x[at])
            return found

        @compiled
        def sums(grid):  # type: ignore[no-untyped-def]
            found = np.zeros(grid.shape[1])
            for at in each(grid.shape[0]):
                found += grid[at]
            return found

        @compiled
        def correlation(x, y):  # type: ignore[no-untyped-def]
            sum_x, sum_y = 0.0, 0.0
            for at in each(len(x)):
                sum_x += x[at]
                sum_y += y[at]
            mean_x, mean_y = sum_x / len(x), sum_y / len(x)
            xy, xx, yy = 0.0, 0.0, 0.0
            for at in each(len(x)):
                dx, dy = x[at] - mean_x, y[at] - mean_y
                xy += dx * dy
                xx += dx * dx
                yy += dy * dy
            return xy / np.sqrt(xx * yy)

        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": average,
            "max": largest,
            "sin": sines,
            "sum": total,
            "sum2d": sums,
            "corr": lambda pair: correlation(*pair),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return shaped(arrays)

    def threads(self) -> int | None:
        return self._threads


ENGINE = declare(
    "numba",
    "Numba, loops compiled when they are first called",
    of("Numba", "numba", "numpy"),
    Compute,
    modules=("numba",),
    requires=("numba>=0.59",),
    options=(
        Setting(
            "threads", integer(0, 1024), 1, "threads; more than 1 are compiled for; 0 for as many as there are cores"
        ),
    ),
)
