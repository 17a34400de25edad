"""cuDF: pandas's DataFrame on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines.compute import gpu
from dyno.engines.compute.library import Functions, Library, declare, of
from dyno.suites.compute.port import columns


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`. The numbers are in the GPU's memory; answers are brought back."""

    def __init__(self, engine: Library) -> None:
        import cudf
        import cupy as cp

        self._cudf = cudf
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda frame: frame["x"].mean(),
            "max": lambda frame: frame["x"].max(),
            # It has no sine of its own: CuPy's goes over the same memory.
            "sin": lambda frame: cp.asnumpy(cp.sin(frame["x"].values)),
            "sum": lambda frame: frame["x"].sum(),
            "sum2d": lambda frame: frame.sum().to_numpy(),
            "corr": lambda frame: frame["x"].corr(frame["y"]),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return self._cudf.DataFrame(columns(arrays))

    def threads(self) -> int | None:
        return None


ENGINE = declare(
    "cudf",
    "cuDF, a DataFrame on a GPU",
    of("cuDF", "cudf-cu12", "cupy-cuda12x"),
    Compute,
    modules=("cudf", "cupy"),
    requires=("cudf-cu12>=24.10",),
    needs=gpu.needs,
    untested=gpu.UNTESTED,
)
