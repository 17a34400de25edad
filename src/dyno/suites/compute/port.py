"""The port `compute`: the protocol that engines of the compute suite implement.

Nothing here imports NumPy: engines' files are read by the parent, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dyno.contracts.model import Caveat

PORT = "compute"
OPERATIONS = ("avg", "max", "sin", "sum", "sum2d", "corr")
X, Y, GRID = "x", "y", "grid"
"""Names of arrays: the numbers, their partners in a correlation, the table that sum2d adds up."""
INPUTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("avg", "max", "sin", "sum"), (X,)),
    "sum2d": (GRID,),
    "corr": (X, Y),
}
"""Names of the arrays that each operation needs."""
DOUBLES = Caveat("doubles", "has no numbers of 32 bits: it keeps and computes doubles, whatever dtype is asked for")

Arrays = Mapping[str, Any]
"""NumPy arrays by name."""
Operation = Callable[[Any], Any]


class Compute(Protocol):
    """Engines implement it as a class called with `(engine,)`. Its constructor does what happens once: imports, the
    start of a cluster. Subclasses inherit defaults for `threads` and `close`."""

    def load(self, arrays: Arrays) -> Any:
        """Replaces the loaded arrays: `x`, or `x` and `y`, or `grid`, which is two-dimensional in C order. Returns
        the argument of the operations, ready to compute: on the cluster, in the table, in the list."""

    def operation(self, name: str) -> Operation:
        """Returns an operation as a callable on what `load` returned: the library's own function or bound method, as
        directly as possible. It returns a number, computed and in this process; `sin` returns all sines and `sum2d` a
        sum per column, as anything that NumPy converts to an array. Raises Absent for an operation that the engine
        does not have."""

    def threads(self) -> int | None:
        """Threads that compute, in all processes together; None if unknown."""
        return 1

    def close(self) -> None:
        return None


def columns(arrays: Arrays) -> dict[str, Any]:
    """The loaded arrays as one-dimensional columns by name; those of a grid are `c0`, `c1` and so on."""
    if GRID not in arrays:
        return dict(arrays)
    return {f"c{at}": arrays[GRID][:, at] for at in range(arrays[GRID].shape[1])}


def sums_of(names: Mapping[str, Any]) -> list[str]:
    """The columns of a grid among these names, in order."""
    return [name for name in names if name.startswith("c")]
