"""The conformance suite of the port `memory-access`."""

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


def check_report(pattern: str, report: Report, threads: int) -> int:
    """Returns the number of figures compared. Raises Wrong if they contradict each other, or for a wrong element of
    the triad or a broken ring of the chase."""
    compared = plausible(report, threads)
    if pattern != CHASE and not report.bytes:
        raise Wrong(f"{report.tool} moved nothing in {report.operations} operations")
    if "wrong" in report.facts:
        if not same(report.facts["wrong"], 0):
            raise Wrong(f"{pattern} left {report.facts['wrong']} wrong results")
        compared += 1
    return compared


def kernels(opened: Opened, tier: Tier | None) -> None:
    """The triad and the chase, briefly in two threads, leave the right results."""
    with opened("kernels") as port:
        for pattern in (TRIAD, CHASE):
            try:
                check_report(pattern, port.work(pattern, 2, SIZE, SHORT_NS, 1), 2)
            except Absent:
                continue


CHECKS: dict[str, Check] = {"kernels": kernels}
