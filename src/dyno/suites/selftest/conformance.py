"""The conformance suite of the port `synthetic`. Nothing may be put here that depends on an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from dyno.contracts.equality import same
from dyno.contracts.model import Tier, Wrong
from dyno.suites.selftest.port import Synthetic

Opened = Callable[[str], AbstractContextManager[Synthetic]]
Check = Callable[[Opened, Tier | None], None]


def answers(opened: Opened, tier: Tier | None) -> None:
    """Every number comes back, whatever it is."""
    with opened("answers") as port:
        operation = port.operation()
        for number in (0, 1, -1, 10**12, 1):
            if not same(got := operation(number), number):
                raise Wrong(f"operation {number}: got {got!r}, expected {number}")


CHECKS: dict[str, Check] = {"answers": answers}
