"""Simulated pairs of runs at different times on a machine that drifts, for the part `apart` of certainty.py: how many
pairs of equal runs fail the gate, and how many rows with a planted slowdown do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dyno.stats.drift import estimate_drift
from dyno.stats.two_runs import CHANCE, chance, compare_speeds

Array = NDArray[np.float64]
SPREAD = 0.02
"""Standard deviation of the logarithms of a typical row's samples."""
UNEQUAL = 1.0
"""Standard deviation of the logarithms of the rows' spreads."""
DRIFT = 0.05
"""Standard deviation of the logarithm of a machine's level..."""
STEP = 0.015
"""...and of its steps from block to block."""
LEVELS = 0.1
"""By how much the logarithms of two levels differ."""
SLOWER = 0.15
"""Share of its speed that a row loses by the planted slowdown."""
THRESHOLD = math.log1p(-0.05)
"""Logarithm of the lowest speed that a gate with a margin of 5 % passes."""


def _none(generator: np.random.Generator, blocks: int, run: int) -> Array:
    return np.zeros(blocks)


def _correlated(generator: np.random.Generator, blocks: int, run: int) -> Array:
    """A level whose correlation falls by half in a third of a run."""
    kept = math.exp(-2 / run)
    levels = generator.normal(0, DRIFT, blocks)
    for block in range(1, blocks):
        levels[block] = kept * levels[block - 1] + math.sqrt(1 - kept**2) * levels[block]
    return levels


def _walk(generator: np.random.Generator, blocks: int, run: int) -> Array:
    return np.cumsum(generator.normal(0, STEP, blocks))


def _two_levels(generator: np.random.Generator, blocks: int, run: int) -> Array:
    """A machine that changes between two levels, once in a run on average."""
    changes = generator.random(blocks) < 1 / run
    levels: Array = np.where(np.cumsum(changes) % 2, LEVELS, 0.0)
    return levels


def _slope(generator: np.random.Generator, blocks: int, run: int) -> Array:
    slope: float = generator.choice([-DRIFT, DRIFT]) / run
    return slope * np.arange(blocks, dtype=np.float64)


@dataclass(frozen=True)
class Machine:
    name: str
    levels: Callable[[np.random.Generator, int, int], Array]
    """Draws the logarithm of the machine's speed in each of a number of blocks. The last argument is the number of
    blocks of a run."""
    runs_between: int = 0
    """How many runs would fit between the two."""
    known: bool = True
    """Whether the drift between the runs is such as shows within them."""


MACHINES = (
    Machine("no drift", _none),
    Machine("level of 5 %", _correlated),
    Machine("the same, later", _correlated, 5),
    Machine("two levels", _two_levels),
    Machine("the same, later", _two_levels, 5, known=False),
    Machine("slope of 5 %", _slope),
    Machine("walk of 1.5 %", _walk),
    Machine("the same, later", _walk, 2, known=False),
)


@dataclass(frozen=True)
class Rates:
    failed: float
    """Share of pairs of equal runs that fail."""
    found: float
    """Share of pairs of which the slower row fails."""


def simulate_pairs(machine: Machine, rows: int, samples: int, seed: int, draws: int) -> tuple[Rates, Rates]:
    """Returns the rates of intervals with the machine's drift, and of those without."""
    generator = np.random.default_rng([seed, rows, samples])
    counts = np.zeros((2, 2))
    for _ in range(draws):
        before, after = _draw(machine, rows, samples, generator)
        slower = after.copy()
        slower[0] *= 1 - SLOWER
        for at, of in enumerate((after, slower)):
            speeds = [tuple(dict(enumerate(run[row].tolist())) for run in (before, of)) for row in range(rows)]
            drift = estimate_drift((old, new) for old, new in speeds)
            for how, variance in enumerate((drift, 0.0)):
                failed = _fail(speeds, variance)
                counts[how, at] += failed[0] if at else any(failed)
    shares = counts / draws
    return Rates(*shares[0].tolist()), Rates(*shares[1].tolist())


def _draw(machine: Machine, rows: int, samples: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Returns the speeds of rows and blocks of two equal runs."""
    levels = machine.levels(generator, samples * (2 + machine.runs_between), samples)
    spreads = SPREAD * np.exp(generator.normal(0, UNEQUAL, (rows, 1)))
    first, last = (
        np.exp(part + spreads * generator.normal(0, 1, (rows, samples)))
        for part in (levels[:samples], levels[-samples:])
    )
    return first, last


def _fail(speeds: Sequence[tuple[dict[int, float], ...]], drift: float) -> list[bool]:
    """Returns whether each row is shown to be slower than the margin allows, with a confidence for all rows."""
    failed = []
    for old, new in speeds:
        center, _ = compare_speeds(old, new, False, drift=drift)
        failed.append(center is not None and chance(center, THRESHOLD) <= CHANCE / len(speeds))
    return failed
