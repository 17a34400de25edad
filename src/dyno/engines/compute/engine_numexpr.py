"""NumExpr: expressions of NumPy arrays, compiled to a machine of its own that goes through them piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.contracts.engine import Gap, PortSpec
from dyno.contracts.model import Caveat
from dyno.engines.compute.library import THREADS, Library, declare, of, one_of
from dyno.suites.compute.port import GRID, X

NO_CORRELATION = Gap("corr", "unsupported", "its reductions are sum, prod, min and max")
DOUBLED = Caveat(
    "sums-doubles", "makes doubles of float32 to sum them up: in their own type it adds up one after the other"
)


class Compute:
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        import numexpr

        self._threads = int(str(engine.options["threads"])) or int(numexpr.nthreads)
        numexpr.set_num_threads(self._threads)
        evaluate = numexpr.evaluate

        def total(x: Any) -> Any:
            return evaluate("sum(x * one)", {"x": x, "one": 1.0}, {})

        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda x: total(x) / len(x),
            "max": lambda x: evaluate("max(x)", {"x": x}, {}),
            "sin": lambda x: evaluate("sin(x)", {"x": x}, {}),
            "sum": total,
            "sum2d": lambda grid: evaluate("sum(x * one, axis=0)", {"x": grid, "one": 1.0}, {}),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return arrays[GRID if GRID in arrays else X]

    def operation(self, name: str) -> Callable[[Any], Any]:
        operation: Callable[[Any], Any] = one_of(name, self._operations, NO_CORRELATION.reason)
        return operation

    def threads(self) -> int | None:
        return self._threads

    def close(self) -> None:
        pass


ENGINE = declare(
    "numexpr",
    "NumExpr, expressions of arrays",
    of("NumExpr", "numexpr", "numpy"),
    PortSpec(Compute, gaps=(NO_CORRELATION,), caveats=(DOUBLED,)),
    modules=("numexpr",),
    requires=("numexpr>=2.10",),
    options=(THREADS,),
)
