"""One trial of the suite cpu: an engine searches for primes in a number of threads, and its report is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from dyno.contracts.model import Phase
from dyno.contracts.suite import Reported, Work
from dyno.suites._shared.store import OnStore
from dyno.suites._shared.tool import plausible, watched
from dyno.suites.cpu.conformance import CHECKS, Check, check_counts


class CpuWorkload(OnStore):
    """See `dyno.contracts.suite.Workload`."""

    def checks(self) -> Mapping[str, Check]:
        return CHECKS

    def prepare(self, phase: Phase) -> None:
        self.begin()

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        threads, limit = self._job.clients, int(self._job.params["max_prime"])
        yield Reported(
            partial(watched, partial(port.search, threads, limit)),
            lambda report: plausible(report, threads) + check_counts(report.facts, limit),
        )
