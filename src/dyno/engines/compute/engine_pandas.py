"""pandas: a DataFrame and its own methods."""

from __future__ import annotations

from typing import Any

from dyno.engines.compute.library import Library, LibraryPort, declare, library
from dyno.suites.compute.port import Arrays, columns


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        import numpy as np
        import pandas as pd

        self._pandas = pd
        self.operations = {
            "avg": pd.DataFrame.mean,
            "max": pd.DataFrame.max,
            "sin": np.sin,
            "sum": pd.DataFrame.sum,
            "sum2d": pd.DataFrame.sum,
            "corr": lambda frame: frame["x"].corr(frame["y"]),
        }

    def load(self, arrays: Arrays) -> Any:
        return self._pandas.DataFrame(columns(arrays))


ENGINE = declare(
    "pandas",
    "pandas, a DataFrame in memory",
    library("pandas", "pandas", "numpy"),
    Compute,
    modules=("pandas",),
    requires=("pandas>=2.0",),
)
