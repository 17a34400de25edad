"""What the searches of a run found: for each cell, its probes and its capacity."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dyno.contracts.histogram import percentiles
from dyno.contracts.limits import LAST, Limit, Probe, worst
from dyno.fields import Sample
from dyno.results import Attempt
from dyno.results.probes import by_block, maximum, measured, probe
from dyno.stats.capacity import AT_LEAST, FAILED, FOUND, NONE, UNFINISHED, UNSTEADY, UNSUSTAINED, Capacity, capacity
from dyno.stats.estimate import Estimate
from dyno.stats.load_limit import load_limit


@dataclass(frozen=True, slots=True)
class Searched:
    """The search of a cell."""

    capacity: Capacity
    maximum: float | None
    """Most operations per second that the clients reached in a closed loop; None if that trial has failed."""
    probes: tuple[Probe, ...]
    attempts: tuple[Attempt, ...]
    """The attempt at each probe; if the closed loop has failed, the attempt at it."""
    shown: Attempt | None
    """The probe whose latencies describe the row: the last; without one, the highest that held, or the lowest that
    broke a limit."""

    @property
    def throughput(self) -> Estimate | None:
        """The capacity with its interval; None without a figure. A capacity of which only the low end is known has no
        interval."""
        found = self.capacity
        if found.kind == FOUND and found.rate is not None:
            return Estimate(found.rate, found.low, found.high)
        return Estimate(found.rate, None, None) if found.kind == AT_LEAST and found.rate is not None else None

    def as_data(self) -> dict[str, Any]:
        """Returns the search as plain JSON."""
        found = self.capacity
        return {
            "kind": found.kind,
            "per_second": found.rate,
            "low": found.low,
            "high": found.high,
            "limit": None if found.limit is None else found.limit.text,
            "maximum": self.maximum,
            "probes": [asdict(probe) for probe in self.probes],
        }


def limited(host: Mapping[str, Any], sample: Sample) -> bool:
    """Returns whether the load generator was the limit of a sample, on the machine of these facts."""
    return load_limit([sample], host) is not None


def search_of(limits: Sequence[Limit], attempts: Sequence[Attempt], host: Mapping[str, Any]) -> Searched:
    """Returns what the search of a cell found, from its attempts."""
    closed, *others = by_block(attempts) or (None,)
    most = None if closed is None else maximum(closed)
    probes = tuple(probe(each, limits, lambda sample: limited(host, sample)) for each in others)
    if closed is not None and most is None:
        return Searched(Capacity(FAILED), None, (), (closed,), None)
    held = [(p.stage == LAST, p.rate, -at) for at, p in enumerate(probes) if not p.failed and worst(limits, p) <= 0]
    broke = [(p.stage == LAST, -p.rate, -at) for at, p in enumerate(probes) if not p.failed]
    best = max(held or broke, default=None)
    return Searched(capacity(limits, probes), most, probes, tuple(others), None if best is None else others[-best[2]])


def why_no_figure(found: Searched, limits: Sequence[Limit]) -> str | None:
    """Returns why a search has no figure; None if it has one."""
    kind, low, high = found.capacity.kind, found.capacity.low, found.capacity.high
    if kind in (FOUND, AT_LEAST):
        return None
    if kind == UNFINISHED:
        return "not measured yet"
    if kind == FAILED:
        return next((f"{a.outcome}: {a.why}" for a in reversed(found.attempts) if measured(a) is None), "it failed")
    between = f"between {0 if low is None else low:,.0f} and {high or 0:,.0f}/s"
    if kind == UNSTEADY:
        return f"unsteady: no line with a positive slope; {between}"
    if kind == UNSUSTAINED:
        return f"unsustained: the last probe broke a limit; {between}"
    assert kind == NONE
    lowest = min((p for p in found.probes if not p.failed), key=lambda p: p.rate)
    attempt = found.attempts[found.probes.index(lowest)]
    return f"none: {_broken(limits, lowest, attempt)} at {lowest.rate:,.3g}/s"


def _broken(limits: Sequence[Limit], lowest: Probe, attempt: Attempt) -> str:
    at = max(range(len(limits)), key=lambda at: lowest.broken[at] / limits[at].share)
    limit, share = limits[at], lowest.broken[at] / lowest.operations
    name = f"p{(1 - limit.share) * 100:g}"
    key = name.replace(".", "")
    response = percentiles([sample.response for sample in attempt.samples]).get(key)
    if limit.latency_ns is None or response is None:
        return f"{share * 100:.3g} % break {limit.text}"
    return f"{name} is {response / 1e6:.3g} ms"
