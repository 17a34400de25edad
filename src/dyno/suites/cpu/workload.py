"""One trial of the suite cpu: an engine searches for primes in so many threads, and its report is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Phase
from dyno.contracts.suite import Report, Reported, Work
from dyno.suites._shared.store import OnStore
from dyno.suites._shared.tool import plausible, watched
from dyno.suites.cpu.conformance import CHECKS, Check, counted
from dyno.suites.cpu.port import Primes


class CpuWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def port(self, engine: Engine, *how: Any) -> Primes:
        port: Primes = self._job.port(engine)
        return port

    def prepare(self, phase: Phase) -> None:
        self.begin()

    @contextmanager
    def connect(self) -> Iterator[Primes]:
        with closing(self.port(self.engine())) as port:
            yield port

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        threads, limit = self._job.clients, int(self._job.params["max_prime"])
        yield Reported(partial(watched, partial(port.search, threads, limit)), partial(_check, threads, limit))


def _check(threads: int, limit: int, report: Report) -> int:
    return plausible(report, threads) + counted(report.facts, limit)
