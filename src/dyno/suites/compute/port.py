"""The port `compute`: what an engine implements to take part.

Nothing here imports NumPy: engines' files are read by the parent, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dyno.contracts.model import Caveat

PORT = "compute"
OPERATIONS = ("avg", "max", "sin", "sum", "sum2d", "corr")
X, Y, GRID = "x", "y", "grid"
"""Names of arrays: of the numbers, of their partners in a correlation, of the table that sum2d is of."""
WANTED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("avg", "max", "sin", "sum"), (X,)),
    "sum2d": (GRID,),
    "corr": (X, Y),
}
"""By operation."""
DOUBLES = Caveat("doubles", "has no numbers of 32 bits: it keeps and computes doubles, whatever dtype is asked for")


class Compute(Protocol):
    """Engines implement it as a class called with `(engine,)`. Whatever takes time once (an import, a cluster's
    start) is done when it is made, not before."""

    def load(self, arrays: Mapping[str, Any]) -> Any:
        """Takes NumPy arrays, by name, in place of those before: `x`, or `x` and `y`, or `grid`, of two dimensions,
        its rows one after the other. Returns what operations are called with, ready to compute: on the cluster, in
        the table, in the list."""

    def operation(self, name: str) -> Callable[[Any], Any]:
        """One of OPERATIONS, as a callable of what `load` returned: its own bound method or a function of the
        library's, with as little between as can be. What it returns is in this process and computed: a number; of
        `sin` all sines and of `sum2d` a sum for each column, as anything that NumPy makes an array of. Raises Absent
        where the engine does not offer it."""

    def threads(self) -> int | None:
        """How many threads compute, all processes together; None where it does not tell."""

    def close(self) -> None: ...


def columns(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """What `load` gets as arrays of one dimension by name, for tables: those of a grid are `c0`, `c1` and so on."""
    if GRID not in arrays:
        return dict(arrays)
    return {f"c{at}": arrays[GRID][:, at] for at in range(arrays[GRID].shape[1])}


def sums_of(names: Mapping[str, Any]) -> list[str]:
    """The columns of a grid among these names, in order."""
    return [name for name in names if name.startswith("c")]
