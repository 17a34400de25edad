"""Dyno's own native kernels (rust/measure/src/averages.rs): what compiled code needs that does nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno import __version__
from dyno.contracts.engine import PortSpec
from dyno.contracts.model import Caveat, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.compute.library import Functions, Library, declare, shaped

KERNELS = Caveat("limit", "is compiled for this suite alone, as the limit: no library that anyone would call")


class Kernels(Library):
    def version(self) -> str:
        return f"Dyno {__version__}"


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        import numpy as np

        from dyno import _native

        self._threads = threads = int(str(engine.options["threads"]))
        total, sums = _native.float_sum, _native.float_sums

        def sines(x: Any) -> Any:
            found = np.empty_like(x)
            _native.float_sines(x, found, threads)
            return found

        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda x: total(x, threads) / len(x),
            "max": lambda x: _native.float_max(x, threads),
            "sin": sines,
            "sum": lambda x: total(x, threads),
            "sum2d": lambda grid: sums(grid, grid.shape[1], threads),
            "corr": lambda pair: _native.float_correlation(pair[0], pair[1], threads),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return shaped(arrays)

    def threads(self) -> int | None:
        return self._threads


def needs(options: Mapping[str, Value]) -> str | None:
    """Found without importing it: a build of before it had the kernels is told by the trial."""
    from importlib.util import find_spec

    if find_spec("dyno._native") is not None:
        return None
    return "needs the native kernels, which were not built: install a Rust toolchain (cargo) and install Dyno again"


ENGINE = declare(
    "native",
    "Compiled loops, as the limit (Dyno's own kernels)",
    Kernels,
    PortSpec(Compute, caveats=(KERNELS,)),
    needs=needs,
    options=(Setting("threads", integer(1, 1024), 1, "threads that compute"),),
)
