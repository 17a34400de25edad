"""The conformance suite of the port `compute`. Nothing may be put here that depends on an engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import product
from typing import Any

from numpy.typing import NDArray

from dyno.contracts.model import Tier
from dyno.suites.compute.params import DOUBLE, SINGLE
from dyno.suites.compute.port import GRID, OPERATIONS, WANTED, Compute, X, Y
from dyno.suites.compute.reference import Reference, numbers, partners

Opened = Callable[[str], AbstractContextManager[Compute]]
Check = Callable[[Opened, Tier | None], None]
SIZES = (1, 7, 1_000, 70_001)
"""One number; fewer than any vector has; no round number of chunks. A correlation wants two."""


def _right(name: str, opened: Opened, tier: Tier | None) -> None:
    """Absent, where the engine does not offer it, is for who asks: a gap says so."""
    with opened(name) as port:
        operation = port.operation(name)
        # Each load is in place of the one before; the same numbers give the same answer again.
        for seed, (dtype, size) in enumerate(product((SINGLE, DOUBLE), SIZES)):
            if name == "corr" and size < 2:
                continue
            arrays = made(seed, dtype, size, 3, WANTED[name])
            handle, reference = port.load(arrays), Reference(arrays)
            for _ in range(2):
                reference.check(name, operation(handle))


def made(seed: int, dtype: str, size: int, width: int, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The arrays of these names."""
    found: dict[str, NDArray[Any]] = {}
    if X in names:
        found[X] = x = numbers(seed, dtype, size, 1)
        if Y in names:
            found[Y] = partners(x, seed)
    if GRID in names:
        found[GRID] = numbers(seed, dtype, (size, width), 3)
    return found


CHECKS: Mapping[str, Check] = {name: partial(_right, name) for name in OPERATIONS}
"""Each operation, of both types."""


def brief(port: Compute, dtype: str, gaps: Collection[str]) -> None:
    """What comes before measuring: the trial's own type, few numbers. Raises Wrong."""
    for name in OPERATIONS:
        if name in gaps:
            continue
        operation = port.operation(name)
        arrays = made(0, dtype, 1_000, 3, WANTED[name])
        Reference(arrays).check(name, operation(port.load(arrays)))
