"""The conformance suite of the port `compute`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import product

from dyno.contracts.model import Tier
from dyno.suites.compute import DOUBLE, SINGLE
from dyno.suites.compute.port import INPUTS, OPERATIONS, Compute
from dyno.suites.compute.reference import Reference, generate

Opened = Callable[[str], AbstractContextManager[Compute]]
Check = Callable[[Opened, Tier | None], None]
SIZES = (1, 7, 1_000, 70_001)
"""One number; fewer than a vector register holds; and a size that no chunk size divides. A correlation needs two."""


def _check_operation(name: str, opened: Opened, tier: Tier | None) -> None:
    with opened(name) as port:
        operation = port.operation(name)
        # Each load replaces the one before, and the same numbers give the same answer again.
        for seed, (dtype, size) in enumerate(product((SINGLE, DOUBLE), SIZES)):
            if name == "corr" and size < 2:
                continue
            arrays = generate(seed, dtype, size, 3, INPUTS[name])
            handle, reference = port.load(arrays), Reference(arrays)
            for _ in range(2):
                reference.check(name, operation(handle))


CHECKS: Mapping[str, Check] = {name: partial(_check_operation, name) for name in OPERATIONS}
"""Each operation, with both types. Raises Absent if the engine does not have it."""


def brief(port: Compute, dtype: str, gaps: Collection[str]) -> None:
    """Checks every operation on a few numbers of the trial's type, before measuring. Raises Wrong."""
    for name in OPERATIONS:
        if name not in gaps:
            operation, arrays = port.operation(name), generate(0, dtype, 1_000, 3, INPUTS[name])
            Reference(arrays).check(name, operation(port.load(arrays)))
