"""One trial of the suite memory: an engine works on so much memory in so many threads, and is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Fact, Phase
from dyno.contracts.suite import Report, Reported, Work
from dyno.host.caches import Cache, caches
from dyno.suites._shared.store import OnStore
from dyno.suites._shared.tool import watched
from dyno.suites.memory.conformance import CHECKS, Check, looked_at
from dyno.suites.memory.port import CACHES, CHASE, Memory

MB = 10**6


class MemoryWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def port(self, engine: Engine, *how: Any) -> Memory:
        port: Memory = self._job.port(engine)
        return port

    def prepare(self, phase: Phase) -> None:
        self.begin()

    @contextmanager
    def connect(self) -> Iterator[Memory]:
        with closing(self.port(self.engine())) as port:
            yield port

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        yield Reported(
            partial(watched, partial(self._measured, port, phase.name)),
            lambda report: looked_at(phase.name, report, self._job.clients),
        )

    def _measured(self, port: Memory, pattern: str, limit_ns: int) -> Report:
        """What the throughput counts are MB (10^6 bytes), or hops."""
        threads, size = self._job.clients, int(self._job.params["size_kib"]) << 10
        report = port.work(pattern, threads, size, limit_ns, self._job.seed)
        known = caches()
        facts: dict[str, Fact] = {"fits": _fits(known, size, threads)}
        if pattern == CHASE:
            # Of each thread: they hop at the same time.
            facts["hop_ns"] = round(report.elapsed_ns * threads / max(report.operations, 1), 2)
            facts |= {cache.name: cache.size_bytes >> 10 for cache in known if cache.name in CACHES}
        items = report.operations if pattern == CHASE else round((report.bytes or 0) / MB)
        return replace(report, items=items, facts={**report.facts, **facts})


def _fits(known: Sequence[Cache], size_bytes: int, threads: int) -> str | None:
    """The smallest cache that has room for it, as the kernel tells of them; of what CPUs share a thread has its part.
    None where the kernel tells of none."""
    for cache in known:
        if size_bytes * min(threads, cache.shared_by) <= cache.size_bytes:
            return f"{cache.name} ({cache.size_bytes >> 10} KiB)"
    return "none" if known else None
