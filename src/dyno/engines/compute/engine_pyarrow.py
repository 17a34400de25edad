"""PyArrow: Arrow's compute functions on arrays in its layout."""

from __future__ import annotations

from typing import Any

from dyno.contracts.engine import Gap, PortSpec
from dyno.engines.compute.library import Library, LibraryPort, declare, library
from dyno.suites.compute.port import Arrays, columns

NO_CORRELATION = Gap("corr", "unsupported", "Arrow's functions have no correlation")


class Compute(LibraryPort):
    """One thread: Arrow's functions use several only on chunked arrays."""

    def __init__(self, engine: Library) -> None:
        import pyarrow as pa
        from pyarrow import compute

        self._arrow = pa
        self.operations = {
            "avg": lambda arrays: compute.mean(arrays[0]).as_py(),
            "max": lambda arrays: compute.max(arrays[0]).as_py(),
            "sin": lambda arrays: compute.sin(arrays[0]),
            "sum": lambda arrays: compute.sum(arrays[0]).as_py(),
            "sum2d": lambda arrays: [compute.sum(array).as_py() for array in arrays],
        }

    def load(self, arrays: Arrays) -> Any:
        return [self._arrow.array(array) for array in columns(arrays).values()]


ENGINE = declare(
    "pyarrow",
    "PyArrow, arrays in Arrow's layout",
    library("PyArrow", "pyarrow"),
    PortSpec(Compute, gaps=(NO_CORRELATION,)),
    modules=("pyarrow",),
    requires=("pyarrow>=15",),
)
