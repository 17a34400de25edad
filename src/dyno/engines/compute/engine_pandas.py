"""pandas: a DataFrame of one column, or of several, and its own methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines.compute.library import Functions, Library, declare, of
from dyno.suites.compute.port import columns


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        import numpy as np
        import pandas as pd

        self._pandas = pd
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": pd.DataFrame.mean,
            "max": pd.DataFrame.max,
            "sin": np.sin,
            "sum": pd.DataFrame.sum,
            "sum2d": pd.DataFrame.sum,
            "corr": lambda frame: frame["x"].corr(frame["y"]),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return self._pandas.DataFrame(columns(arrays))


ENGINE = declare(
    "pandas",
    "pandas, a DataFrame in memory",
    of("pandas", "pandas", "numpy"),
    Compute,
    modules=("pandas",),
    requires=("pandas>=2.0",),
)
