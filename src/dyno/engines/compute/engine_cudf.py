"""cuDF: pandas's DataFrame on a GPU."""

from __future__ import annotations

from typing import Any

from dyno.engines.compute.library import GPU, Library, LibraryPort, declare, library
from dyno.suites.compute.port import Arrays, columns


class Compute(LibraryPort):
    """The numbers are in the GPU's memory; results are copied back."""

    def __init__(self, engine: Library) -> None:
        import cudf
        import cupy as cp

        self._cudf = cudf
        self.operations = {
            "avg": lambda frame: frame["x"].mean(),
            "max": lambda frame: frame["x"].max(),
            # cuDF has no sine: CuPy's works on the same memory.
            "sin": lambda frame: cp.asnumpy(cp.sin(frame["x"].values)),
            "sum": lambda frame: frame["x"].sum(),
            "sum2d": lambda frame: frame.sum().to_numpy(),
            "corr": lambda frame: frame["x"].corr(frame["y"]),
        }

    def load(self, arrays: Arrays) -> Any:
        return self._cudf.DataFrame(columns(arrays))

    def threads(self) -> int | None:
        return None


ENGINE = declare(
    "cudf",
    "cuDF, a DataFrame on a GPU",
    library("cuDF", "cudf-cu12", "cupy-cuda12x"),
    Compute,
    modules=("cudf", "cupy"),
    requires=("cudf-cu12>=24.10",),
    **GPU,
)
