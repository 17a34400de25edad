"""The trials of a run that searches capacities: in each block, one of every engine whose search goes on."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dyno.contracts.limits import Limit, Probe, given_up
from dyno.contracts.model import Trial
from dyno.contracts.probe_time import forecast
from dyno.fields import Sample
from dyno.results import Attempt
from dyno.results.probes import by_block, maximum, probe, sum_time
from dyno.runner import search
from dyno.runner.plan import Plan

Fit = Callable[[Sequence[Limit], Sequence[Probe]], Any]


class Searches:
    """The searches of a run. They follow from its attempts alone, so a resumed run has the same probes.

    `limited`: whether the load generator was the limit of a sample. `fit`: returns the capacity by the probes.
    """

    def __init__(self, plan: Plan, limited: Callable[[Sample], bool], fit: Fit) -> None:
        self._plan = plan
        self._limits = plan.limits
        self._limited = limited
        self._fit = fit
        self._times = plan.probe_times(len(plan.cells))

    def blocks(self, attempts: Sequence[Attempt]) -> Iterator[list[Trial]]:
        """Yields the trials of each block, in shuffled order, until all searches are over. `attempts` grows
        meanwhile."""
        cells = range(len(self._plan.cells))
        while trials := [trial for cell in cells if (trial := self._trial(cell, attempts))]:
            # After an interruption, only some searches have their trial of the block.
            number = min(trial.block for trial in trials)
            block = [trial for trial in trials if trial.block == number]
            random.Random(f"{self._plan.seed}:{number}").shuffle(block)
            yield block

    def _trial(self, cell: int, attempts: Sequence[Attempt]) -> Trial | None:
        """Returns the cell's next trial; None if its search is over. The first is a closed loop, which shows the
        most that the clients reach."""
        own = [each for each in attempts if each.cell == cell]
        closed, others = by_block(own)
        taken = sum_time(own, self._times.warmup)
        block = len(closed) + len(others)
        left = self._times.bound - taken.total
        most = maximum(closed[-1]) if closed else None
        if most is None:
            over = left <= 0 or given_up([probe(each, self._limits, self._limited) for each in closed])
            if over:
                return None
            return Trial(cell, block, seconds=self._times.least, bound=left)
        probes = [probe(each, self._limits, self._limited) for each in others]
        step = search.next_step(
            self._limits, most, probes, self._fit, seed=self._plan.seed, times=self._times, spent=taken
        )
        if not isinstance(step, search.Step):
            return None
        return Trial(cell, block, step.stage, step.rate, step.seconds, left)


def forecast_search(plan: Plan, closed: Attempt) -> tuple[float, float] | None:
    """Returns the time of a search and its bound, in s, after its closed loop; None if that has failed."""
    times = plan.probe_times(len(plan.cells))
    most = maximum(closed)
    if most is None:
        return None
    return forecast(plan.limits, times, most, sum_time([closed], times.warmup).around), times.bound


def forecast_searches(plan: Plan) -> tuple[float, float]:
    """Returns the usual time of a run's searches if no probe takes longer than the least duration, and their bound,
    in s."""
    cells = len(plan.cells)
    times = plan.probe_times(cells)
    return cells * forecast(plan.limits, times), cells * times.bound
