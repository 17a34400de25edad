"""The conformance suite of the port `memory-access`. Nothing may be put here that depends on an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from dyno.contracts.equality import same
from dyno.contracts.model import Absent, Tier, Wrong
from dyno.contracts.suite import Report
from dyno.suites._shared.tool import plausible
from dyno.suites.memory.port import CHASE, TRIAD, Memory

Opened = Callable[[str], AbstractContextManager[Memory]]
Check = Callable[[Opened, Tier | None], None]
SIZE, SHORT_NS = 64 << 10, 10_000_000


def looked_at(pattern: str, report: Report, threads: int) -> int:
    """How many figures were held against each other. Raises Wrong where they can't be true, and where an element or a
    ring was not what it must be."""
    seen = plausible(report, threads)
    if pattern != CHASE and not report.bytes:
        raise Wrong(f"{report.tool} moved nothing in {report.operations} operations")
    if "wrong" in report.facts:
        if not same(report.facts["wrong"], 0):
            raise Wrong(f"{report.facts['wrong']} of what {pattern} left is not as it must be")
        seen += 1
    return seen


def kernels(opened: Opened, tier: Tier | None) -> None:
    """The triad and the chase, briefly, in two threads: what they leave is looked at."""
    with opened("kernels") as port:
        for pattern in (TRIAD, CHASE):
            try:
                looked_at(pattern, port.work(pattern, 2, SIZE, SHORT_NS, 1), 2)
            except Absent:
                continue


CHECKS: dict[str, Check] = {"kernels": kernels}
