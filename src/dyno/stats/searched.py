"""What the searches of a run found: for each cell, its probes and its capacity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dyno.contracts.histogram import percentiles
from dyno.contracts.limits import LAST, Limit, Probe, worst_excess
from dyno.contracts.probe_time import DISCARDED, forecast, needed_operations
from dyno.fields import Sample
from dyno.results import Attempt, Run
from dyno.results.header import Host
from dyno.results.probes import by_block, failure, maximum, probe, sum_time
from dyno.stats.capacity import (
    AT_LEAST,
    FAILED,
    FOUND,
    NONE,
    OUT_OF_TIME,
    UNFINISHED,
    UNSTEADY,
    UNSUSTAINED,
    Capacity,
    capacity,
)
from dyno.stats.estimate import Estimate
from dyno.stats.load_limit import load_limit

NEARLY = 0.9
"""A probe judged enough operations if it judged this share of those that its limit needs: arrivals are random."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The search of a cell."""

    capacity: Capacity
    maximum: float | None
    """Most operations per second that the clients reached in a closed loop; None if that trial has failed."""
    probes: tuple[Probe, ...]
    attempts: tuple[Attempt, ...]
    """The attempt at each probe; if the closed loop has failed, the attempts at it."""
    shown: Attempt | None
    """The probe whose latencies describe the row: the last; without one, the highest that held, or the lowest that
    broke a limit."""
    wall_s: float
    """Time of all attempts."""
    forecast_s: float | None
    """Time of the search as forecast after its closed loop; None if that has failed."""
    bound_s: float | None
    """Bound of the search; None for run files of 0.1.0."""
    lost: tuple[str, ...]
    """Why trials of the search were lost."""

    @property
    def throughput(self) -> Estimate | None:
        """The capacity with its interval; None without a figure. A capacity of which only the low end is known has no
        interval."""
        found = self.capacity
        if found.kind == FOUND and found.rate is not None:
            return Estimate(found.rate, found.low, found.high)
        if found.kind == AT_LEAST and found.rate is not None:
            return Estimate(found.rate, None, None)
        return None


def is_load_limited(host: Host, sample: Sample) -> bool:
    """Returns whether the load generator was the limit of a sample, on the machine of these facts."""
    return load_limit([sample], host) is not None


def search_of(run: Run, attempts: Sequence[Attempt]) -> Searched | None:
    """Returns what the search of a cell found, from its attempts; None if the run doesn't search."""
    if not run.limits:
        return None
    limits, host = run.limits, run.header.host
    times = run.plan.probe_times(len(run.cells))
    closed, others = by_block(attempts)
    most = maximum(closed[-1]) if closed else None
    probes = tuple(probe(each, limits, lambda sample: is_load_limited(host, sample)) for each in others)
    held = [
        (p.stage == LAST, p.rate, -at) for at, p in enumerate(probes) if not p.failed and worst_excess(limits, p) <= 0
    ]
    broke = [(p.stage == LAST, -p.rate, -at) for at, p in enumerate(probes) if not p.failed]
    best = max(held or broke, default=None)
    if closed and most is None:
        result = Capacity(FAILED)
    else:
        result = capacity(limits, probes)
    if result.kind == UNFINISHED and run.ending is not None:
        result = replace(result, kind=OUT_OF_TIME, rate=None, center=None)
    return Searched(
        result,
        most,
        probes,
        tuple(closed if most is None else others),
        None if best is None else others[-best[2]],
        wall_s=sum_time(attempts, times.warmup).total,
        forecast_s=None if most is None else forecast(limits, times, most, sum_time(closed, times.warmup).around),
        bound_s=None if math.isinf(times.bound) else times.bound,
        lost=tuple(why for each in (*closed, *others) if (why := failure(each)) is not None),
    )


def few_operations(found: Searched, limits: Sequence[Limit], stage: str) -> list[int]:
    """Returns the numbers of operations that the stage's probes judged, of those that judged too few for the
    strictest limit."""
    least = NEARLY * (1 - DISCARDED) * needed_operations(limits, stage)
    return [each.operations for each in found.probes if each.stage == stage and 0 < each.operations < least]


def why_no_figure(found: Searched, limits: Sequence[Limit]) -> str | None:
    """Returns why a search has no figure; None if it has one."""
    kind = found.capacity.kind
    low = found.capacity.low
    high = found.capacity.high
    if kind in (FOUND, AT_LEAST):
        return None
    if kind == UNFINISHED:
        return "not measured yet"
    if kind == FAILED:
        if found.lost:
            return found.lost[-1]
        return "it failed"
    between = f"between {0 if low is None else low:,.0f} and {high or 0:,.0f}/s"
    if kind == OUT_OF_TIME:
        bound = ""
        if found.bound_s is not None:
            bound = f"{found.bound_s:,.0f} s (--within) and "
        known = "no probe broke a limit"
        if high:
            known = between
        return f"out of time: no further probe fits into {bound}a trial's --timeout; {known}"
    if kind == UNSTEADY:
        return f"unsteady: no line with a positive slope; {between}"
    if kind == UNSUSTAINED:
        return f"unsustained: the last probe broke a limit; {between}"
    assert kind == NONE
    return f"none: {lowest_probe(found, limits)}"


def machine_limit(found: Searched, floor: Searched, limits: Sequence[Limit]) -> str | None:
    """Returns what a null engine's search says of the machine if it holds no more than an engine's; else None."""
    null = floor.capacity
    if null.kind == NONE:
        return f"can't hold the limit: {lowest_probe(floor, limits)}"
    held = None
    if null.kind == FOUND:
        held = null.rate
    elif null.kind in (UNSTEADY, UNSUSTAINED):
        held = null.high
    reached = found.capacity.rate or found.capacity.high
    if held is None or reached is None or reached < NEARLY * held:
        return None
    return f"holds the limit up to {held:,.0f}/s only"


def lowest_probe(found: Searched, limits: Sequence[Limit]) -> str:
    """Returns what the probe with the lowest rate measured: 'p99 is 12.8 ms at 193/s'."""
    lowest = min((p for p in found.probes if not p.failed), key=lambda p: p.rate)
    attempt = found.attempts[found.probes.index(lowest)]
    return f"{_describe_broken_limit(limits, lowest, attempt)} at {lowest.rate:,.3g}/s"


def _describe_broken_limit(limits: Sequence[Limit], lowest: Probe, attempt: Attempt) -> str:
    at = max(range(len(limits)), key=lambda at: lowest.broken[at] / limits[at].share)
    limit, share = limits[at], lowest.broken[at] / lowest.operations
    name = f"p{(1 - limit.share) * 100:g}"
    key = name.replace(".", "")
    response = percentiles([sample.response for sample in attempt.samples]).get(key)
    if limit.latency_ns is None or response is None:
        return f"{share * 100:.3g} % break {limit.text}"
    return f"{name} is {response / 1e6:.3g} ms"
