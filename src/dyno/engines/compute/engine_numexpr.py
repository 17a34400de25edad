"""NumExpr: expressions of NumPy arrays, compiled for its own virtual machine and evaluated in blocks."""

from __future__ import annotations

from typing import Any

from dyno.contracts.engine import Gap, PortSpec
from dyno.contracts.model import Caveat
from dyno.engines.compute.library import THREADS, Library, LibraryPort, declare, library

NO_CORRELATION = Gap("corr", "unsupported", "its reductions are sum, prod, min and max")
DOUBLED = Caveat(
    "sums-doubles", "makes doubles of float32 to sum them up: in their own type it adds up one after the other"
)


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        import numexpr

        self._threads = engine.threads or int(numexpr.nthreads)
        numexpr.set_num_threads(self._threads)
        evaluate = numexpr.evaluate

        def total(x: Any) -> Any:
            return evaluate("sum(x * one)", {"x": x, "one": 1.0}, {})

        self.operations = {
            "avg": lambda x: total(x) / len(x),
            "max": lambda x: evaluate("max(x)", {"x": x}, {}),
            "sin": lambda x: evaluate("sin(x)", {"x": x}, {}),
            "sum": total,
            "sum2d": lambda grid: evaluate("sum(x * one, axis=0)", {"x": grid, "one": 1.0}, {}),
        }

    def threads(self) -> int | None:
        return self._threads


ENGINE = declare(
    "numexpr",
    "NumExpr, expressions of arrays",
    library("NumExpr", "numexpr", "numpy"),
    PortSpec(Compute, gaps=(NO_CORRELATION,), caveats=(DOUBLED,)),
    modules=("numexpr",),
    requires=("numexpr>=2.10",),
    options=(THREADS,),
)
