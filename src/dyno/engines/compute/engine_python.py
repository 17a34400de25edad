"""Python itself: lists of floats, its own sum and max, and the modules math and statistics."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import Any

from dyno.contracts.engine import PortSpec
from dyno.engines.compute.library import Functions, Library, declare
from dyno.suites.compute.port import DOUBLES, GRID, X, Y


class Interpreter(Library):
    """Nothing to open."""

    def version(self) -> str:
        return f"{platform.python_implementation()} {platform.python_version()}"


class Compute(Functions):
    """See `dyno.suites.compute.port.Compute`."""

    def __init__(self, engine: Library) -> None:
        from math import sin
        from statistics import correlation

        self._operations: Mapping[str, Callable[[Any], Any]] = {
            "avg": lambda x: sum(x) / len(x),
            "max": max,
            "sin": lambda x: [sin(value) for value in x],
            "sum": sum,
            "sum2d": lambda rows: [sum(row[at] for row in rows) for at in range(len(rows[0]))],
            "corr": lambda pair: correlation(*pair),
        }

    def load(self, arrays: Mapping[str, Any]) -> Any:
        if Y in arrays:
            return arrays[X].tolist(), arrays[Y].tolist()
        return arrays[GRID if GRID in arrays else X].tolist()


ENGINE = declare(
    "python", "Python's own lists, sum, max, math and statistics", Interpreter, PortSpec(Compute, caveats=(DOUBLES,))
)
