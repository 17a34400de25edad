"""Dask over CuPy: chunks in a GPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines.compute import gpu
from dyno.engines.compute.library import Functions, Library, declare, of, shaped

MOST = 1 << 24
"""Numbers of a chunk."""


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`. One thread gives the GPU its work."""

    def __init__(self, engine: Library) -> None:
        import cupy as cp
        import dask
        import dask.array as da

        dask.config.set(scheduler="synchronous")
        self._cupy, self._array = cp, da
        back = cp.asnumpy
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda x: x.mean().compute().item(),
            "max": lambda x: x.max().compute().item(),
            "sin": lambda x: back(da.sin(x).compute()),
            "sum": lambda x: x.sum().compute().item(),
            "sum2d": lambda grid: back(grid.sum(axis=0, dtype="f8").compute()),
            "corr": lambda pair: da.corrcoef(*pair)[0, 1].compute().item(),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        made = {
            name: self._array.from_array(
                self._cupy.asarray(array), chunks=(min(len(array), MOST), *array.shape[1:]), asarray=False
            )
            for name, array in arrays.items()
        }
        self._cupy.cuda.Device().synchronize()
        return shaped(made)

    def threads(self) -> int | None:
        return None

    def close(self) -> None:
        self._cupy.get_default_memory_pool().free_all_blocks()


ENGINE = declare(
    "dask_cupy",
    "Dask over CuPy, chunks on a GPU",
    of("Dask", "dask", "cupy-cuda12x"),
    Compute,
    modules=("dask", "cupy"),
    requires=("dask[array]>=2024.1", "cupy-cuda12x>=13"),
    needs=gpu.needs,
    untested=gpu.UNTESTED,
)
