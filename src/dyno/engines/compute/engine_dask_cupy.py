"""Dask over CuPy: chunks in a GPU's memory."""

from __future__ import annotations

from typing import Any

from dyno.engines.compute.engine_cupy import CupyPort
from dyno.engines.compute.library import GPU, Library, declare, library

CHUNK = 1 << 24
"""Largest number of rows in a chunk."""


class Compute(CupyPort):
    """One thread submits the GPU's work."""

    def __init__(self, engine: Library) -> None:
        super().__init__()
        import dask
        import dask.array as da

        dask.config.set(scheduler="synchronous")
        self._dask_array, back = da, self.cupy.asnumpy
        self.operations = {
            "avg": lambda x: x.mean().compute().item(),
            "max": lambda x: x.max().compute().item(),
            "sin": lambda x: back(da.sin(x).compute()),
            "sum": lambda x: x.sum().compute().item(),
            "sum2d": lambda grid: back(grid.sum(axis=0, dtype="f8").compute()),
            "corr": lambda pair: da.corrcoef(*pair)[0, 1].compute().item(),
        }

    def array(self, array: Any) -> Any:
        chunks = (min(len(array), CHUNK), *array.shape[1:])
        return self._dask_array.from_array(super().array(array), chunks=chunks, asarray=False)


ENGINE = declare(
    "dask_cupy",
    "Dask over CuPy, chunks on a GPU",
    library("Dask", "dask", "cupy-cuda12x"),
    Compute,
    modules=("dask", "cupy"),
    requires=("dask[array]>=2024.1", "cupy-cuda12x>=13"),
    **GPU,
)
