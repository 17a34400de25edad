"""The port `compute`. Doesn't import NumPy, since the parent imports engines' files."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dyno.contracts.model import Caveat

PORT = "compute"
OPERATIONS = ("avg", "max", "sin", "sum", "sum2d", "corr")
X = "x"
Y = "y"
GRID = "grid"
"""Names of arrays: the numbers, the second numbers of a correlation's pairs, and the table that sum2d adds up."""
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
    """A library that computes. Engines implement this protocol as a class called with `(engine,)`. The constructor
    does one-time work: imports, the start of a cluster. Subclasses inherit defaults for `threads` and `close`."""

    def load(self, arrays: Arrays) -> Any:
        """Replaces the loaded arrays: `x`, or `x` and `y`, or `grid`, which is two-dimensional in C order. Returns
        the argument of the operations as the library computes on it: data on a cluster, a table, a list."""

    def operation(self, name: str) -> Operation:
        """Returns an operation as a function of the result of `load`: the library's own function or bound method, as
        directly as possible.

        The function returns a number that is computed and in this process. `sin` returns all sines, and `sum2d` a sum
        per column, as anything that NumPy converts to an array. Raises Absent for an operation that the engine
        doesn't have.
        """

    def threads(self) -> int | None:
        """Returns the number of threads that compute, in all processes together; None if unknown."""
        return 1

    def close(self) -> None: ...


def columns(arrays: Arrays) -> dict[str, Any]:
    """Returns the arrays as one-dimensional columns by name. The columns of a grid are `c0`, `c1` and so on."""
    if GRID not in arrays:
        return dict(arrays)
    return {f"c{at}": arrays[GRID][:, at] for at in range(arrays[GRID].shape[1])}


def sums_of(names: Mapping[str, object]) -> list[str]:
    """Returns the columns of a grid among these names, in order."""
    return [name for name in names if name.startswith("c")]
