"""NumPy: arrays, by the functions that come with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines._shared.library import Library, declare, of
from dyno.suites.compute.port import GRID, X, Y


class Compute:
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        import numpy as np

        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": np.average,
            "max": np.max,
            "sin": np.sin,
            "sum": np.sum,
            # Along the rows it adds up one after the other, which numbers of 32 bits would not bear.
            "sum2d": lambda grid: np.sum(grid, axis=0, dtype=np.float64),
            "corr": lambda pair: np.corrcoef(*pair)[0, 1],
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return (arrays[X], arrays[Y]) if Y in arrays else arrays[GRID if GRID in arrays else X]

    def operation(self, name: str) -> Callable[[Any], Any]:
        return self._operations[name]

    def threads(self) -> int | None:
        """Of these functions corrcoef alone has the linear algebra's, for a product of two rows."""
        return 1

    def close(self) -> None:
        pass


# Dyno requires it itself: it can't be missing.
ENGINE = declare("numpy", "NumPy, arrays in memory", of("NumPy", "numpy"), Compute)
