"""PyArrow: Arrow's own functions over arrays in its layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dyno.contracts.engine import Gap, PortSpec
from dyno.engines.compute.library import Library, declare, of, one_of
from dyno.suites.compute.port import columns

NO_CORRELATION = Gap("corr", "unsupported", "Arrow's functions have no correlation")


class Compute:
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        import pyarrow as pa
        from pyarrow import compute

        self._arrow = pa
        total = compute.sum
        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda arrays: compute.mean(arrays[0]).as_py(),
            "max": lambda arrays: compute.max(arrays[0]).as_py(),
            "sin": lambda arrays: compute.sin(arrays[0]),
            "sum": lambda arrays: total(arrays[0]).as_py(),
            "sum2d": lambda arrays: [total(array).as_py() for array in arrays],
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        return [self._arrow.array(array) for array in columns(arrays).values()]

    def operation(self, name: str) -> Callable[[Any], Any]:
        operation: Callable[[Any], Any] = one_of(name, self._operations, NO_CORRELATION.reason)
        return operation

    def threads(self) -> int | None:
        """A function over an array of one piece has one, whatever the library could have."""
        return 1

    def close(self) -> None:
        pass


ENGINE = declare(
    "pyarrow",
    "PyArrow, arrays in Arrow's layout",
    of("PyArrow", "pyarrow"),
    PortSpec(Compute, gaps=(NO_CORRELATION,)),
    modules=("pyarrow",),
    requires=("pyarrow>=15",),
)
