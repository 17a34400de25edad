"""PyTorch: tensors on the processor."""

from __future__ import annotations

from typing import Any

from dyno.engines.compute.library import THREADS, Library, LibraryPort, declare, library, select
from dyno.suites.compute.port import Arrays, Y


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        import torch

        self._torch = torch
        if engine.threads:
            torch.set_num_threads(engine.threads)
        self.operations = {
            "avg": lambda x: x.mean().item(),
            "max": lambda x: x.max().item(),
            "sin": torch.sin,
            "sum": lambda x: x.sum().item(),
            "sum2d": lambda grid: grid.sum(dim=0),
            "corr": lambda pair: torch.corrcoef(pair)[0, 1].item(),
        }

    def load(self, arrays: Arrays) -> Any:
        tensors = select({name: self._torch.from_numpy(array) for name, array in arrays.items()})
        return self._torch.stack(tensors) if Y in arrays else tensors

    def threads(self) -> int | None:
        return int(self._torch.get_num_threads())


ENGINE = declare(
    "torch",
    "PyTorch, tensors on the processor",
    library("PyTorch", "torch"),
    Compute,
    modules=("torch",),
    requires=("torch>=2.0",),
    options=(THREADS,),
    untested="the package that pip installs on Linux is for GPUs, and takes several gigabytes with what it needs",
)
