"""One trial of the suite memory: an engine accesses memory in a number of threads, and its report is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dyno.contracts.model import Fact, Phase
from dyno.contracts.suite import Report, Reported, Work
from dyno.host.caches import Cache, caches
from dyno.suites._shared.store import OnStore
from dyno.suites._shared.tool import watched
from dyno.suites.memory.conformance import CHECKS, Check, check_report
from dyno.suites.memory.port import CACHES, CHASE, Memory

MB = 10**6


class MemoryWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def prepare(self, phase: Phase) -> None:
        self.begin()

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        yield Reported(
            partial(watched, partial(self._run, port, phase.name)),
            lambda report: check_report(phase.name, report, self._job.clients),
        )

    def _run(self, port: Memory, pattern: str, limit_ns: int) -> Report:
        """Items are MB (10^6 bytes), or hops."""
        threads, size = self._job.clients, int(self._job.params["size_kib"]) << 10
        report = port.work(pattern, threads, size, limit_ns, self._job.seed)
        known = caches()
        facts: dict[str, Fact] = {"fits": _fits(known, size, threads)}
        if pattern == CHASE:
            # Per thread: all threads hop at the same time.
            facts["hop_ns"] = round(report.elapsed_ns * threads / max(report.operations, 1), 2)
            facts |= {cache.name: cache.size_bytes >> 10 for cache in known if cache.name in CACHES}
        items = report.operations if pattern == CHASE else round((report.bytes or 0) / MB)
        return replace(report, items=items, facts={**report.facts, **facts})


def _fits(known: Sequence[Cache], size_bytes: int, threads: int) -> str | None:
    """The smallest cache that holds the working set, counting each thread's part of a shared cache. None if the
    kernel describes no caches."""
    for cache in known:
        if size_bytes * min(threads, cache.shared_by) <= cache.size_bytes:
            return f"{cache.name} ({cache.size_bytes >> 10} KiB)"
    return "none" if known else None
