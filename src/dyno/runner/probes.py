"""The trials of a run that searches capacities: in each block, one of every engine whose search goes on."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dyno.contracts.limits import Limit, Probe
from dyno.contracts.model import Trial
from dyno.fields import Sample
from dyno.results import Attempt
from dyno.results.probes import by_block, maximum, probe
from dyno.runner import search
from dyno.runner.plan import Plan

USUAL_PROBES = 17
Fit = Callable[[Sequence[Limit], Sequence[Probe]], Any]


class Searches:
    """The searches of a run. They follow from its attempts alone, so a resumed run has the same probes.

    `limited`: whether the load generator was the limit of a sample. `fit`: returns the capacity by the probes.
    """

    def __init__(self, plan: Plan, limited: Callable[[Sample], bool], fit: Fit) -> None:
        self._plan, self._limits, self._limited, self._fit = plan, plan.limits, limited, fit

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
        attempts = by_block(each for each in attempts if each.cell == cell)
        if not attempts:
            return Trial(cell, 0, seconds=self._plan.duration)
        most = maximum(attempts[0])
        if most is None:
            return None
        probes = [probe(each, self._limits, self._limited) for each in attempts[1:]]
        plan, least = self._plan, self._plan.duration or search.LEAST_S
        step = search.next_step(
            self._limits, most, probes, self._fit, seed=plan.seed, least_s=least, last_s=plan.confirm
        )
        if not isinstance(step, search.Step):
            return None
        return Trial(cell, len(attempts), step.stage, step.rate, step.seconds)


def seconds_of_search(plan: Plan) -> float:
    """Returns the usual time of one engine's search, in s, if its probes need no more than their least time."""
    return USUAL_PROBES * ((plan.duration or search.LEAST_S) + plan.warmup) + plan.confirm
