"""Python itself: lists of floats, sum, max, and the modules math and statistics."""

from __future__ import annotations

import platform
from typing import Any

from dyno.contracts.engine import PortSpec
from dyno.engines.compute.library import Library, LibraryPort, declare, select
from dyno.suites.compute.port import DOUBLES, Arrays


class Interpreter(Library):
    def version(self) -> str:
        return f"{platform.python_implementation()} {platform.python_version()}"


class Compute(LibraryPort):
    def __init__(self, engine: Library) -> None:
        from math import sin
        from statistics import correlation

        self.operations = {
            "avg": lambda x: sum(x) / len(x),
            "max": max,
            "sin": lambda x: [sin(value) for value in x],
            "sum": sum,
            "sum2d": lambda rows: [sum(row[at] for row in rows) for at in range(len(rows[0]))],
            "corr": lambda pair: correlation(*pair),
        }

    def load(self, arrays: Arrays) -> Any:
        return select({name: array.tolist() for name, array in arrays.items()})


ENGINE = declare(
    "python", "Python's own lists, sum, max, math and statistics", Interpreter, PortSpec(Compute, caveats=(DOUBLES,))
)
