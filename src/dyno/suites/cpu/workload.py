"""The suite `cpu`: the port `primes`, its conformance checks, and a trial."""

from collections.abc import Mapping
from typing import Protocol

from dyno.contracts.equality import same
from dyno.contracts.model import Fact, Phase, Tier, Wrong
from dyno.contracts.suite import Opened, Report, by_name
from dyno.suites._shared.store import ToolWorkload, plausible


class Primes(Protocol):
    """A search for primes. Engines implement this protocol as a class called with `(engine,)`."""

    def search(self, threads: int, limit: int, limit_ns: int, events: int = 0) -> Report:
        """Searches for all primes from 3 to below `limit`, repeatedly in each thread, by dividing each number by all
        from 2 to its root.

        Runs for `limit_ns`, or for `events` searches per thread. Operations and items of the report are searches. Its
        facts have latencies and the threads' shares (see docs/reference/suites/cpu.md), and `fewest_primes` and
        `most_primes` of any search if the engine counts them.
        """

    def close(self) -> None: ...


SECOND_NS = 10**9
THREADS = 2
EVENTS = 3
LIMIT = 1_000


def primes(limit: int) -> int:
    """Returns the number of primes from 3 to below `limit`, by the sieve of Eratosthenes."""
    candidate = bytearray([1]) * max(limit, 3)
    candidate[:3] = b"\0\0\0"
    for number in range(2, int(limit**0.5) + 1):
        multiples = range(number * number, limit, number)
        candidate[number * number : limit : number] = bytes(len(multiples))
    return sum(candidate[:limit])


def check_counts(facts: Mapping[str, Fact], limit: int) -> int:
    """Checks the engine's counts of primes. Returns the number of compared figures. Raises Wrong."""
    counts, expected = [facts[name] for name in ("fewest_primes", "most_primes") if name in facts], primes(limit)
    for count in counts:
        if not same(count, expected):
            raise Wrong(f"{count} primes were found from 3 to below {limit}, expected {expected}")
    return len(counts)


def events(opened: Opened[Primes], tier: Tier | None) -> None:
    """All threads do the requested number of events, and find the right number of primes."""
    with opened("events") as port:
        report = port.search(THREADS, LIMIT, SECOND_NS, EVENTS)
        plausible(report, THREADS)
        check_counts(report.facts, LIMIT)
        if not same(report.operations, THREADS * EVENTS):
            raise Wrong(f"{report.operations} events were done, expected {THREADS * EVENTS}")


CHECKS = by_name(events)


class CpuWorkload(ToolWorkload):
    """Trial of the suite: searches for primes in a number of threads."""

    checks = CHECKS

    def run(self, port: Primes, phase: Phase, limit_ns: int) -> Report:
        report: Report = port.search(self._job.clients, int(self._job.params["max_prime"]), limit_ns)
        return report

    def check(self, phase: Phase, report: Report) -> int:
        return super().check(phase, report) + check_counts(report.facts, int(self._job.params["max_prime"]))


WORKLOAD = CpuWorkload
