"""The probes in a run that searches capacities, as the search and the statistics read them."""

from collections.abc import Callable, Iterable, Sequence

from dyno.contracts.limits import Limit, Probe
from dyno.fields import Sample
from dyno.results.run import Attempt


def by_block(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Returns the last attempt of each block, from the attempts at a cell: a closed loop, then the probes."""
    last = {each.block: each for each in attempts}
    return [last[block] for block in sorted(last)]


def measured(attempt: Attempt) -> Sample | None:
    """Returns what a search can use of an attempt; None if it has failed."""
    sample = next(iter(attempt.samples), None)
    return sample if sample is not None and attempt.outcome == "ok" and not sample.void else None


def maximum(closed: Attempt) -> float | None:
    """Returns the most operations per second that the clients reach in a closed loop; None if the attempt has
    failed."""
    sample = measured(closed)
    return sample.operations / sample.elapsed_ns * 1e9 if sample and sample.operations and sample.elapsed_ns else None


def probe(attempt: Attempt, limits: Sequence[Limit], limited: Callable[[Sample], bool]) -> Probe:
    """Returns what the search learns from a probe. `limited`: whether the load generator was the limit of a
    sample."""
    sample, stage, rate = measured(attempt), attempt.stage or "", attempt.rate or 0.0
    if sample is None or not sample.judged:
        return Probe(stage, rate, 0)
    broken = tuple(sample.broken.get(limit.text, 0) for limit in limits)
    return Probe(stage, rate, sample.judged, broken, limited(sample))
