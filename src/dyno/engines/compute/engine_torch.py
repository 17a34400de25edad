"""PyTorch: tensors on the processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.engines.compute.library import THREADS, Functions, Library, declare, of
from dyno.suites.compute.port import GRID, X, Y


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        import torch

        self._torch = torch
        if threads := engine.options["threads"]:
            torch.set_num_threads(int(str(threads)))
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda x: x.mean().item(),
            "max": lambda x: x.max().item(),
            "sin": torch.sin,
            "sum": lambda x: x.sum().item(),
            "sum2d": lambda grid: grid.sum(dim=0),
            "corr": lambda pair: torch.corrcoef(pair)[0, 1].item(),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        made = {name: self._torch.from_numpy(array) for name, array in arrays.items()}
        return self._torch.stack((made[X], made[Y])) if Y in made else made[GRID if GRID in made else X]

    def threads(self) -> int | None:
        return int(self._torch.get_num_threads())


ENGINE = declare(
    "torch",
    "PyTorch, tensors on the processor",
    of("PyTorch", "torch"),
    Compute,
    modules=("torch",),
    requires=("torch>=2.0",),
    options=(THREADS,),
    untested="the package that pip installs on Linux is for GPUs, and takes several gigabytes with what it needs",
)
