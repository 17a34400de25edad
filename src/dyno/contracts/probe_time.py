"""Time of a search for a capacity: how long its probes should take, how long they may, and what it will take as a
whole.

A search has a bound, its share of `within`. Its probes are shortened so that a usual search fits into what is left of
the bound, and each trial into its timeout.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dyno.contracts.limits import CONFIRM, EXPLORE, EXPLORES, LAST, Limit
from dyno.contracts.model import UsageError

WARMUP_S = 5.0
"""Duration of operations at the probe's rate, right before it, that are not counted either."""
DISCARDED = 0.2
"""Share of the probe's duration whose operations are not counted, because a queue starts empty."""
LEAST_S, LAST_S = 10.0, 60.0
BOUND_S = 1800.0
"""Default bound of one search, in s."""
BEYOND = {EXPLORE: 100, CONFIRM: 300, LAST: 300}
"""A probe should take as long as this many operations may break the strictest limit, but at most MOST_OPERATIONS."""
MOST_OPERATIONS = 2_000_000
FEWEST_CONFIRMED = 12
USUAL_PROBES = EXPLORES + FEWEST_CONFIRMED + 1
SHORTEST = 0.1
"""Shortest probe, as a share of the least duration. If a probe would be shorter, the search is out of time."""
MOST_LAST = 0.25
"""Largest share of the bound that is kept for the last probe."""
STARTING_S = 60.0
"""Recommended time for starting and loading, beside the longest probe."""
SPARE = 1.25
"""Factor for the time that a trial takes beside its phase."""
USUAL_SHARE = 0.7
"""Assumed capacity, as a share of the closed loop's rate, for a forecast."""


@dataclass(frozen=True, slots=True)
class ProbeTimes:
    """Durations of a search, in s."""

    warmup: float = WARMUP_S
    least: float = LEAST_S
    """Least duration of a probe that isn't shortened."""
    last: float = LAST_S
    """Duration of the last probe."""
    bound: float = math.inf
    """Bound of the whole search, closed loop included."""
    timeout: float = math.inf
    """Bound of a trial."""

    def check(self, cells: int) -> None:
        """Raises UsageError if `cells` searches have too little time."""
        longest = self.warmup + max(self.least, self.last)
        if self.timeout <= longest:
            raise UsageError(
                f"timeout {self.timeout:g}: the longest probe takes {longest:g} s besides starting and loading: give"
                f" at least {longest + STARTING_S:g}, or a shorter --duration, --warmup or --confirm"
            )
        needed = self.warmup + self.least + USUAL_PROBES * (self.warmup + SHORTEST * self.least)
        if self.bound < needed:
            raise UsageError(
                f"within {cells * self.bound:g}: {cells} search{'es' * (cells != 1)} of {USUAL_PROBES} probes need at"
                f" least {math.ceil(cells * needed)} s: give more, or a shorter --duration or --warmup"
            )


@dataclass(frozen=True, slots=True)
class Spent:
    """Time that a search has taken so far, in s."""

    total: float = 0.0
    around: float = 0.0
    """Longest time that a trial took beside its phase: starting, loading, checking."""


USUAL_TIMES, NO_TIME = ProbeTimes(), Spent()


def needed_operations(limits: Sequence[Limit], stage: str) -> float:
    """Returns the number of operations of which as many may break the strictest limit as the stage requires."""
    return min(BEYOND[stage] / min(limit.share for limit in limits), MOST_OPERATIONS)


def seconds(limits: Sequence[Limit], rate: float, stage: str, times: ProbeTimes) -> float:
    """Returns the duration of a probe that isn't shortened."""
    if stage == LAST:
        return times.last
    return max(needed_operations(limits, stage) / rate, times.least)


def shorten_probe(
    stage: str, wanted: float, following: Sequence[float], times: ProbeTimes, spent: Spent
) -> float | None:
    """Returns the duration of the next probe, so that what follows fits into the bound too: probes of the durations
    `following`, which are shortened like this one, and the last. Returns None if the probe would be too short."""
    apart = times.warmup + SPARE * spent.around
    room = times.bound - spent.total - apart
    shortest = SHORTEST * times.last
    if stage != LAST:
        room -= len(following) * apart + apart + min(times.last, times.bound * MOST_LAST)
        shortest = SHORTEST * times.least
    scale = min(room / (wanted + sum(following)), 1.0)
    duration = min(wanted * scale, times.timeout - apart)
    if duration >= shortest:
        return duration
    return None


def forecast(limits: Sequence[Limit], times: ProbeTimes, maximum: float | None = None, around: float = 0.0) -> float:
    """Returns the time of a usual search, in s. `maximum`: the closed loop's rate. None assumes so high a rate that
    no probe takes longer than the least duration."""
    if maximum is None:
        rate = math.inf
    else:
        rate = maximum * USUAL_SHARE
    stages = [EXPLORE] * EXPLORES + [CONFIRM] * FEWEST_CONFIRMED + [LAST]
    longest = times.timeout - times.warmup - SPARE * around
    probes = sum(min(seconds(limits, rate, stage, times), longest) for stage in stages)
    return min(times.least + probes + (1 + len(stages)) * (times.warmup + around), times.bound)
