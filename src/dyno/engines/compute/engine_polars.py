"""Polars: columns in Arrow's layout, computed by its own threads."""

from __future__ import annotations

import os
from typing import Any

from dyno.engines.compute.library import THREADS, Library, LibraryPort, declare, library
from dyno.suites.compute.port import Arrays, columns


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        if engine.threads:
            # Polars reads it only when it is imported.
            os.environ["POLARS_MAX_THREADS"] = str(engine.threads)
        import polars as pl

        self._polars = pl
        sine, correlation = pl.col("x").sin(), pl.corr("x", "y")
        self.operations = {
            "avg": lambda frame: frame["x"].mean(),
            "max": lambda frame: frame["x"].max(),
            "sin": lambda frame: frame.select(sine)["x"],
            "sum": lambda frame: frame["x"].sum(),
            "sum2d": lambda frame: frame.sum().row(0),
            "corr": lambda frame: frame.select(correlation).item(),
        }

    def load(self, arrays: Arrays) -> Any:
        return self._polars.DataFrame(columns(arrays))

    def threads(self) -> int | None:
        return int(self._polars.thread_pool_size())


ENGINE = declare(
    "polars",
    "Polars, a DataFrame in Arrow's layout",
    library("Polars", "polars"),
    Compute,
    modules=("polars",),
    requires=("polars>=1.0",),
    options=(THREADS,),
)
