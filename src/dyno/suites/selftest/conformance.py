"""The conformance suite of the port `synthetic`. Nothing may be put here that depends on an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from dyno.model import Wrong
from dyno.suites.selftest.port import Synthetic

Opened = Callable[[], AbstractContextManager[Synthetic]]


def answers(opened: Opened) -> None:
    """Every number comes back, whatever it is."""
    with opened() as port:
        operation = port.operation()
        for number in (0, 1, -1, 10**12, 1):
            if (got := operation(number)) != number:
                raise Wrong(f"operation {number}: got {got!r}, expected {number}")


CHECKS: dict[str, Callable[[Opened], None]] = {"answers": answers}
