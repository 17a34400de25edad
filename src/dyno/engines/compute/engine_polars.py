"""Polars: columns in Arrow's layout, computed by threads of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines.compute.library import THREADS, Functions, Library, declare, of
from dyno.suites.compute.port import columns


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        if threads := engine.options["threads"]:
            # It is read when the library is imported, and only then.
            os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars as pl

        self._polars = pl
        x, both = pl.col("x"), pl.corr("x", "y")
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda frame: frame["x"].mean(),
            "max": lambda frame: frame["x"].max(),
            "sin": lambda frame: frame.select(x.sin())["x"],
            "sum": lambda frame: frame["x"].sum(),
            "sum2d": lambda frame: frame.sum().row(0),
            "corr": lambda frame: frame.select(both).item(),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return self._polars.DataFrame(columns(arrays))

    def threads(self) -> int | None:
        return int(self._polars.thread_pool_size())


ENGINE = declare(
    "polars",
    "Polars, a DataFrame in Arrow's layout",
    of("Polars", "polars"),
    Compute,
    modules=("polars",),
    requires=("polars>=1.0",),
    options=(THREADS,),
)
