"""NumPy: arrays and their own functions."""

from __future__ import annotations

from dyno.engines.compute.library import Library, LibraryPort, declare, library


class Compute(LibraryPort):
    """One thread: only corrcoef could use those of the linear algebra library, for a product of two rows."""

    def __init__(self, engine: Library) -> None:
        import numpy as np

        self.operations = {
            "avg": np.average,
            # The method, as FPB calls it: `np.max` first looks up the kind of array, 0.8 µs per call.
            "max": lambda array: array.max(),
            "sin": np.sin,
            "sum": np.sum,
            # Along the rows NumPy adds naively, which float32 would not survive.
            "sum2d": lambda grid: np.sum(grid, axis=0, dtype=np.float64),
            "corr": lambda pair: np.corrcoef(*pair)[0, 1],
        }


# Dyno itself requires NumPy, so it has no `modules` or `requires`.
ENGINE = declare("numpy", "NumPy, arrays in memory", library("NumPy", "numpy"), Compute)
