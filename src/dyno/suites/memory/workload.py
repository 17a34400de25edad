"""The suite `memory`: the port `memory-access`, its conformance checks, and a trial."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from dyno.contracts.equality import same
from dyno.contracts.model import Absent, Fact, Phase, Tier, Wrong
from dyno.contracts.suite import Opened, Report, by_name
from dyno.host.procfs import Cache, caches
from dyno.suites._shared.store import ToolWorkload, plausible
from dyno.suites.memory import CACHES, CHASE, TRIAD

MB = 10**6


class Memory(Protocol):
    """A memory test. Engines implement this protocol as a class called with `(engine,)`."""

    def work(self, pattern: str, threads: int, size_bytes: int, limit_ns: int, seed: int) -> Report:
        """Runs one of BLOCKS, the triad or the chase, with a working set of `size_bytes` per thread.

        Operations of the report are events, and its bytes are those moved. For the chase, operations and items are
        hops. The fact `wrong` is the number of wrong results, if the engine checks results. Raises Absent for a
        pattern that the engine doesn't have.
        """

    def close(self) -> None: ...


SIZE, SHORT_NS = 64 << 10, 10_000_000


def check_report(pattern: str, report: Report, threads: int) -> int:
    """Checks a report's figures and results. Returns the number of compared figures. Raises Wrong."""
    compared = plausible(report, threads)
    if pattern != CHASE and not report.bytes:
        raise Wrong(f"{report.tool} moved nothing in {report.operations} operations")
    if "wrong" in report.facts:
        if not same(report.facts["wrong"], 0):
            raise Wrong(f"{pattern} left {report.facts['wrong']} wrong results")
        compared += 1
    return compared


def kernels(opened: Opened[Memory], tier: Tier | None) -> None:
    """The triad and the chase leave the right results after a short run in two threads."""
    with opened("kernels") as port:
        for pattern in (TRIAD, CHASE):
            try:
                check_report(pattern, port.work(pattern, 2, SIZE, SHORT_NS, 1), 2)
            except Absent:
                continue


CHECKS = by_name(kernels)


class MemoryWorkload(ToolWorkload):
    """Trial of the suite: accesses memory in a number of threads."""

    checks = CHECKS

    def run(self, port: Memory, phase: Phase, limit_ns: int) -> Report:
        """Runs a phase. Items of the report are MB (10^6 bytes), or hops."""
        threads, size = self._job.clients, int(self._job.params["size_kib"]) << 10
        report = port.work(phase.name, threads, size, limit_ns, self._job.seed)
        known = caches()
        facts: dict[str, Fact] = {"fits": _fits(known, size, threads)}
        if phase.name == CHASE:
            # Each thread hops at the same time as the others, so this is the time for a hop of one thread.
            facts["hop_ns"] = round(report.elapsed_ns * threads / max(report.operations, 1), 2)
            facts |= {cache.name: cache.size_bytes >> 10 for cache in known if cache.name in CACHES}
            items = report.operations
        else:
            items = round((report.bytes or 0) / MB)
        return replace(report, items=items, facts={**report.facts, **facts})

    def check(self, phase: Phase, report: Report) -> int:
        return check_report(phase.name, report, self._job.clients)


def _fits(known: Sequence[Cache], size_bytes: int, threads: int) -> str | None:
    """Returns the smallest cache that holds all threads' working sets; None if the kernel describes no caches."""
    for cache in known:
        if size_bytes * min(threads, cache.shared_by) <= cache.size_bytes:
            return f"{cache.name} ({cache.size_bytes >> 10} KiB)"
    if known:
        return "none"
    return None


WORKLOAD = MemoryWorkload
