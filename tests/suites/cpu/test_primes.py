"""Runs the checks of the port `primes` on the engines of the suite cpu, and on reports that contradict themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from held import unstored
from needed import require

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Opened, Report
from dyno.suites.cpu.workload import CHECKS, primes

pytestmark = pytest.mark.usefixtures("processes")

PORT = "primes"
SPECS = [spec for spec in registry.engines() if PORT in spec.ports]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_an_engine_passes_the_check(spec: EngineSpec, check: str, tmp_path: Path) -> None:
    require(spec)
    CHECKS[check](unstored(spec, PORT, tmp_path), None)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_longer_search_takes_longer(spec: EngineSpec, tmp_path: Path) -> None:
    """The longer search has a hundred times as many divisions, so no noise of the machine can reverse the order."""
    require(spec)
    with unstored(spec, PORT, tmp_path)("") as port:
        short, long = (port.search(1, limit, 10**9, 20).facts["latency_min_ns"] for limit in (1_000, 64_000))
    assert short < long


@pytest.mark.parametrize(("limit", "expected"), [(3, 0), (4, 1), (10, 3), (12, 4), (100, 24), (64_000, 6_412)])
def test_primes_counts_primes(limit: int, expected: int) -> None:
    assert primes(limit) == expected


# -- the suite itself ---------------------------------------------------------------------------------------------

RIGHT = Report(
    tool="stub",
    operations=6,
    items=6,
    elapsed_ns=4_000,
    latencies=[(1_000, 4), (1_100, 2)],
    facts={"fewest_primes": 167, "most_primes": 167},
)


def stub(report: Callable[[int, int], Report]) -> Opened:
    class Port:
        def search(self, threads: int, limit: int, limit_ns: int, events: int = 0) -> Report:
            return report(threads, events)

        def close(self) -> None:
            pass

    @contextmanager
    def connect(name: str) -> Iterator[Any]:
        yield Port()

    return connect


BROKEN = {
    "nothing": replace(RIGHT, operations=0, latencies=()),
    "no time": replace(RIGHT, elapsed_ns=0),
    "one event too few": replace(RIGHT, operations=5, latencies=[(1_000, 5)]),
    "more latencies than events": replace(RIGHT, latencies=[(1_000, 7)]),
    "more time than there was": replace(RIGHT, latencies=[(10**9, 6)]),
    "a prime too few": replace(RIGHT, facts={**RIGHT.facts, "fewest_primes": 166}),
    "a prime too many": replace(RIGHT, facts={**RIGHT.facts, "most_primes": 168}),
    "primes as text": replace(RIGHT, facts={**RIGHT.facts, "most_primes": "167"}),
}


def test_the_check_passes_a_consistent_report() -> None:
    CHECKS["events"](stub(lambda threads, events: RIGHT), None)


@pytest.mark.claim("An outside tool's report is checked for consistency")
@pytest.mark.parametrize("how", BROKEN)
def test_the_check_fails_an_inconsistent_report(how: str) -> None:
    with pytest.raises(Wrong):
        CHECKS["events"](stub(lambda threads, events: BROKEN[how]), None)
