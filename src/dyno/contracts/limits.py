"""Limits under which a capacity is searched, and the probes that test them.

A limit is a share of the operations that were due. `p99<5ms`: at most 1 % of them were answered later than 5 ms after
they were due, failed, or never started. `errors<0.1%`: at most 0.1 % failed or never started. Overload can't hide in
such a share, and the counts of several clients simply add.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

EXPLORE, CONFIRM, LAST = STAGES = ("explore", "confirm", "last")
EXPLORES = 4
"""After this many exploring probes, a search has its bracket, or ends because all held or none did."""
ROUND = 4
"""Number of confirming probes in one round."""
MOST_LOST = 3
"""So many lost trials in a row end a search. Fewer are repeated, whatever `retries` is."""
LEAST_SHARE = 5e-5
"""Smallest share of a limit: 100 operations of the 2 million that a probe counts at most."""
_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_LATENCY = re.compile(r"p(\d{1,2}(?:\.\d{1,4})?)\s*<\s*(\d{1,9}(?:\.\d{1,9})?)\s*(ns|us|µs|ms|s)", re.ASCII)
_ERRORS = re.compile(r"errors\s*<\s*(\d{1,2}(?:\.\d{1,4})?)\s*%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Limit:
    text: str
    """Normalized: 'p99<5ms'."""
    share: float
    """Maximum share of the operations due that may break the limit."""
    latency_ns: int | None
    """Operations answered later than this after they were due break the limit; None if only errors do."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A trial at one offered rate."""

    stage: str
    """`explore`, `confirm` or `last`: the stage for which the search asked for it."""
    rate: float
    """Offered rate, in operations due per second of all clients."""
    operations: int
    """Number of operations due after the discarded part; 0 if the trial failed."""
    broken: tuple[int, ...] = ()
    """Number of these operations that broke each limit, in the order of the limits."""
    client_limited: bool = False
    """Whether the load generator was the limit, so that a broken limit says nothing about the engine."""
    final: bool = False
    """Whether a failure is one that another attempt would not change: a wrong answer, or a refusal."""

    @property
    def failed(self) -> bool:
        return self.operations == 0


def parse(text: str) -> Limit:
    """Parses 'p99<5ms', 'p99.9 < 20 ms' or 'errors<0.1%'. Raises ValueError."""
    if match := _LATENCY.fullmatch(text.strip()):
        percentile, amount, unit = match.groups()
        share, latency_ns = 1 - Fraction(percentile) / 100, int(Fraction(amount) * _UNITS[unit])
        if latency_ns == 0:
            raise ValueError(f"{text}: expected a time above 0")
        limit = Limit(f"p{percentile}<{amount}{unit}", float(share), latency_ns)
    elif match := _ERRORS.fullmatch(text.strip()):
        limit = Limit(f"errors<{match[1]}%", float(Fraction(match[1]) / 100), None)
    else:
        raise ValueError(f"{text}: expected a percentile and a time, such as p99<5ms, or errors<0.1%")
    if not LEAST_SHARE <= limit.share < 1:
        raise ValueError(f"{text}: expected a share of {LEAST_SHARE:.3%} to 99.999% that may break the limit")
    return limit


def parse_all(texts: Iterable[str]) -> tuple[Limit, ...]:
    """Parses the limits of a search. Raises ValueError, also if two of them limit the same quantity."""
    limits: dict[str, Limit] = {}
    for limit in map(parse, texts):
        quantity = limit.text.partition("<")[0]
        if quantity in limits:
            raise ValueError(f"{limit.text}: {quantity} has a limit already, {limits[quantity].text}")
        limits[quantity] = limit
    if not limits:
        raise ValueError("expected at least one limit, such as p99<5ms")
    return tuple(limits.values())


def excess(limit: Limit, broken: int, operations: int) -> float:
    """Returns the logarithm of the share that broke the limit, relative to the limit: positive if it is broken.

    A share of zero counts as half an operation. Its logarithm would be infinite, and half an operation is below
    everything that can be counted, yet lower for a longer probe, which shows more."""
    return math.log(max(broken, 0.5) / operations / limit.share)


def worst_excess(limits: Sequence[Limit], probe: Probe) -> float:
    """Returns the excess over the limit that the probe broke most, or came nearest to."""
    return max(excess(limit, broken, probe.operations) for limit, broken in zip(limits, probe.broken, strict=True))


def bracket(limits: Sequence[Limit], probes: Iterable[Probe]) -> tuple[Probe | None, Probe | None]:
    """Returns the probe with the lowest rate that broke a limit, preceded by the highest that held below it."""
    by_rate = sorted((probe for probe in probes if not probe.failed), key=lambda probe: probe.rate)
    broken = next((probe for probe in by_rate if worst_excess(limits, probe) > 0), None)
    below = [probe for probe in by_rate if broken is None or probe.rate < broken.rate]
    return below[-1] if below else None, broken


def given_up(probes: Sequence[Probe]) -> bool:
    """Returns whether a search ends because its last probes were lost, or one has failed for good."""
    last = probes[-MOST_LOST:]
    return any(probe.final for probe in probes) or (len(last) == MOST_LOST and all(probe.failed for probe in last))
