"""The probes in a run that searches capacities, as the search and the statistics read them."""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from dyno.contracts.limits import Limit, Probe
from dyno.contracts.probe_time import Spent
from dyno.fields import Sample
from dyno.results.run import Attempt

FINAL = ("wrong", "refused")
"""Outcomes of failed attempts that another attempt would not change."""
NOTHING_DUE = "no operation was due in the part that counts"


def by_block(attempts: Iterable[Attempt]) -> tuple[list[Attempt], list[Attempt]]:
    """Returns the last attempt of each block, from the attempts at a cell: those at its closed loop, and the
    probes."""
    last = {each.block: each for each in attempts}
    ordered = [last[block] for block in sorted(last)]
    closed = list(takewhile(lambda each: each.stage is None, ordered))
    return closed, ordered[len(closed) :]


def usable_sample(attempt: Attempt) -> Sample | None:
    """Returns what a search can use of an attempt; None if it has failed."""
    sample = next(iter(attempt.samples), None)
    usable = sample is not None and attempt.outcome == "ok" and not sample.void
    if not usable or sample is None or (attempt.stage is not None and not sample.judged):
        return None
    return sample


def failure(attempt: Attempt) -> str | None:
    """Returns why a search can't use an attempt; None if it can."""
    if usable_sample(attempt) is not None:
        return None
    if attempt.outcome != "ok":
        return f"{attempt.outcome}: {attempt.why}"
    void = next((sample.void for sample in attempt.samples if sample.void), None)
    if void:
        return f"void: {void}"
    return NOTHING_DUE


def maximum(closed: Attempt) -> float | None:
    """Returns the most operations per second that the clients reach in a closed loop; None if the attempt has
    failed."""
    sample = usable_sample(closed)
    if sample and sample.operations and sample.elapsed_ns:
        return sample.operations / sample.elapsed_ns * 1e9
    return None


def probe(attempt: Attempt, limits: Sequence[Limit], limited: Callable[[Sample], bool]) -> Probe:
    """Returns what the search learns from a probe, or from the attempt at a closed loop. `limited`: whether the load
    generator was the limit of a sample."""
    sample = usable_sample(attempt)
    stage = attempt.stage or ""
    rate = attempt.rate or 0.0
    if sample is None or not sample.judged:
        final = attempt.outcome in FINAL or any(sample.void for sample in attempt.samples)
        return Probe(stage, rate, 0, final=final)
    broken = tuple(sample.broken.get(limit.text, 0) for limit in limits)
    return Probe(stage, rate, sample.judged, broken, limited(sample))


def sum_time(attempts: Sequence[Attempt], warmup: float) -> Spent:
    """Returns the time that the attempts of a search took. Later trials may copy the store that the first loaded, so
    the time beside the phase is that of the probes, as soon as there are some."""
    closed, probes = by_block(attempts)
    # The closed loop's warm-up comes before its phase, and that of a probe is in its phase.
    around = max(_times_around(probes) or [each - warmup for each in _times_around(closed)], default=0.0)
    return Spent(sum(each.duration_ns for each in attempts) / 1e9, around)


def _times_around(attempts: Sequence[Attempt]) -> list[float]:
    """Returns the time that each attempt took beside its phase, in s, without the failed ones."""
    samples = [(each, usable_sample(each)) for each in attempts]
    return [(each.duration_ns - sample.elapsed_ns) / 1e9 for each, sample in samples if sample is not None]
