"""Dyno's own native kernels (rust/measure/src/averages.rs): the limit for compiled code."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from dyno import __version__
from dyno.contracts.engine import PortSpec
from dyno.contracts.model import Caveat, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import Library, LibraryPort, declare

LIMIT = Caveat("limit", "is compiled for this suite alone, as the limit: no library that anyone would call")


class Kernels(Library):
    def version(self) -> str:
        return f"Dyno {__version__}"


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        import numpy as np

        from dyno import _native

        self._threads = threads = engine.threads
        total = _native.float_sum

        def sines(x: Any) -> Any:
            result = np.empty_like(x)
            _native.float_sines(x, result, threads)
            return result

        self.operations = {
            "avg": lambda x: total(x, threads) / len(x),
            "max": lambda x: _native.float_max(x, threads),
            "sin": sines,
            "sum": lambda x: total(x, threads),
            "sum2d": lambda grid: _native.float_sums(grid, grid.shape[1], threads),
            "corr": lambda pair: _native.float_correlation(pair[0], pair[1], threads),
        }

    def threads(self) -> int | None:
        return self._threads


def needs(options: Mapping[str, Value]) -> str | None:
    if find_spec("dyno._native") is not None:
        return None
    return "needs the native kernels, which were not built: install a Rust toolchain (cargo) and install Dyno again"


ENGINE = declare(
    "native",
    "Compiled loops, as the limit (Dyno's own kernels)",
    Kernels,
    PortSpec(Compute, caveats=(LIMIT,)),
    needs=needs,
    options=(Setting("threads", integer(1, 1024), 1, "threads that compute"),),
)
