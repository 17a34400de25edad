"""NumPy: arrays, by the functions that come with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines.compute.library import Functions, Library, declare, of, shaped


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        import numpy as np

        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": np.average,
            # The array's own, as FPB calls it: `np.max` first asks what kind of array it has, 0.8 µs each time.
            "max": lambda array: array.max(),
            "sin": np.sin,
            "sum": np.sum,
            # Along the rows it adds up one after the other, which numbers of 32 bits would not bear.
            "sum2d": lambda grid: np.sum(grid, axis=0, dtype=np.float64),
            "corr": lambda pair: np.corrcoef(*pair)[0, 1],
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return shaped(arrays)

    def threads(self) -> int | None:
        """Of these functions corrcoef alone has the linear algebra's, for a product of two rows."""
        return 1


# Dyno requires it itself: it can't be missing.
ENGINE = declare("numpy", "NumPy, arrays in memory", of("NumPy", "numpy"), Compute)
