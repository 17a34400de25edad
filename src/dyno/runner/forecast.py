"""How long a plan's measuring takes, before anything is run. What starting, loading and checking take is known of the
first block, and said by who watches it."""

from __future__ import annotations

from typing import NamedTuple

from dyno.results import FLOOR_BLOCKS, beside
from dyno.runner.plan import Plan


class Forecast(NamedTuple):
    trials: int
    """Of engines, with a null engine's few."""
    seconds: float
    """Of measuring, and of the warm-up before it, at most: what can be done once may be done earlier."""


def forecast_time(plan: Plan) -> Forecast:
    """Of a run that stops after the blocks it was planned with."""
    trials, total = 0, 0.0
    for cell in plan.cells:
        blocks = min(plan.samples, FLOOR_BLOCKS) if beside(plan.cells, cell) else plan.samples
        pace = plan.pace(cell)
        each = pace["warmup_ns"] + (pace["budget_ns"] if pace["duration_ns"] is None else pace["duration_ns"])
        trials += blocks
        total += blocks * len(plan.phases) * each / 1e9
    return Forecast(trials, total)
