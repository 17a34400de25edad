"""CuPy: NumPy's functions on a GPU."""

from __future__ import annotations

from typing import Any

from dyno.engines.compute.library import GPU, Library, LibraryPort, declare, library, select
from dyno.suites.compute.port import Arrays


class CupyPort(LibraryPort):
    """The numbers are in the GPU's memory; results are copied back."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy

    def array(self, array: Any) -> Any:
        return self.cupy.asarray(array)

    def load(self, arrays: Arrays) -> Any:
        loaded = {name: self.array(array) for name, array in arrays.items()}
        self.cupy.cuda.Device().synchronize()
        return select(loaded)

    def threads(self) -> int | None:
        return None

    def close(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()


class Compute(CupyPort):
    def __init__(self, engine: Library) -> None:
        super().__init__()
        cp = self.cupy
        self.operations = {
            "avg": lambda x: x.mean().item(),
            "max": lambda x: x.max().item(),
            "sin": lambda x: cp.asnumpy(cp.sin(x)),
            "sum": lambda x: x.sum().item(),
            "sum2d": lambda grid: cp.asnumpy(grid.sum(axis=0, dtype=cp.float64)),
            "corr": lambda pair: cp.corrcoef(*pair)[0, 1].item(),
        }


ENGINE = declare(
    "cupy",
    "CuPy, arrays on a GPU",
    library("CuPy", "cupy-cuda12x", "numpy"),
    Compute,
    modules=("cupy",),
    requires=("cupy-cuda12x>=13",),
    **GPU,
)
