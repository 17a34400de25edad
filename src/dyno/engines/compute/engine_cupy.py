"""CuPy: NumPy's functions on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines.compute import gpu
from dyno.engines.compute.library import Functions, Library, declare, of, shaped


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`. The numbers are in the GPU's memory; answers are brought back."""

    def __init__(self, engine: Library) -> None:
        import cupy as cp

        self._cupy = cp
        back = cp.asnumpy
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda x: x.mean().item(),
            "max": lambda x: x.max().item(),
            "sin": lambda x: back(cp.sin(x)),
            "sum": lambda x: x.sum().item(),
            "sum2d": lambda grid: back(grid.sum(axis=0, dtype=cp.float64)),
            "corr": lambda pair: cp.corrcoef(*pair)[0, 1].item(),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        made = {name: self._cupy.asarray(array) for name, array in arrays.items()}
        self._cupy.cuda.Device().synchronize()
        return shaped(made)

    def threads(self) -> int | None:
        return None

    def close(self) -> None:
        self._cupy.get_default_memory_pool().free_all_blocks()


ENGINE = declare(
    "cupy",
    "CuPy, arrays on a GPU",
    of("CuPy", "cupy-cuda12x", "numpy"),
    Compute,
    modules=("cupy",),
    requires=("cupy-cuda12x>=13",),
    needs=gpu.needs,
    untested=gpu.UNTESTED,
)
