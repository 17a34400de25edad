"""The conformance suite of the port `primes`. Nothing may be put here that depends on an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from dyno.contracts.equality import same
from dyno.contracts.model import Fact, Tier, Wrong
from dyno.suites._shared.tool import plausible
from dyno.suites.cpu.port import Primes

Opened = Callable[[str], AbstractContextManager[Primes]]
Check = Callable[[Opened, Tier | None], None]
SECOND_NS, THREADS, EVENTS = 10**9, 2, 3
LIMIT = 1_000


def primes(limit: int) -> int:
    """How many there are from 3 to below `limit`: the sieve of Eratosthenes."""
    candidate = bytearray([1]) * max(limit, 3)
    candidate[:3] = b"\0\0\0"
    for number in range(2, int(limit**0.5) + 1):
        multiples = range(number * number, limit, number)
        candidate[number * number : limit : number] = bytes(len(multiples))
    return sum(candidate[:limit])


def counted(facts: Mapping[str, Fact], limit: int) -> int:
    """How many figures were compared. Raises Wrong where another number of primes was found than there are."""
    told = [facts[name] for name in ("fewest_primes", "most_primes") if name in facts]
    there = primes(limit)
    for found in told:
        if not same(found, there):
            raise Wrong(f"{found} primes were found from 3 to below {limit}, and there are {there}")
    return len(told)


def events(opened: Opened, tier: Tier | None) -> None:
    """As many events as were asked for, of all threads, and what they found."""
    with opened("events") as port:
        report = port.search(THREADS, LIMIT, SECOND_NS, EVENTS)
        plausible(report, THREADS)
        counted(report.facts, LIMIT)
        if not same(report.operations, THREADS * EVENTS):
            raise Wrong(f"{THREADS * EVENTS} events were asked for, and {report.operations} done")


CHECKS: dict[str, Check] = {"events": events}
