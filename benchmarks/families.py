"""Simulated runs of rows with known speeds, for the parts `family`, `decided` and `versions` of certainty.py: how
many runs have a false statement, and how many of the true differences are found.

A false statement calls equal rows different, the slower one faster, or rows equal that differ by more than the
margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from dyno.stats.compare import pair_centers
from dyno.stats.estimate import Center
from dyno.stats.family import ALONE, LOOKS, Family, make_family
from dyno.stats.verdict import MARGIN, kind_of
from dyno.stats.versions import SpeedSteps, Step, make_versions_family

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, int, int]], Array]
"""Draws the logarithms of the disturbances of phases, rows and blocks."""
DRIFT, SPREAD = 0.05, 0.05
MOST_BLOCKS = 24
PLANTED = 0.1
FALSE = 0.01
"""Share of runs that may have a false statement."""


def _normal(generator: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    return generator.normal(0, SPREAD, shape)


def _unequal(generator: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    phases, rows, _ = shape
    spreads = np.exp(generator.uniform(math.log(0.02), math.log(0.3), (phases, rows, 1)))
    return generator.normal(0, 1, shape) * spreads


def _one_wild(generator: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    spreads = np.where(np.arange(shape[1]) == 0, 0.3, 0.02).reshape(1, -1, 1)
    return generator.normal(0, 1, shape) * spreads


def _two_modes(generator: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    return generator.normal(0, SPREAD / 4, shape) - (generator.random(shape) < 0.35) * 0.1


def _heavy(generator: np.random.Generator, shape: tuple[int, int, int]) -> Array:
    return generator.standard_t(3, shape) * 0.04


@dataclass(frozen=True)
class Case:
    name: str
    noise: Noise
    ahead: float = 0.0
    """By how much the first row is faster than the others."""
    groups: bool = False
    """Whether every second row is 30 % faster."""

    def log_speeds(self, rows: int) -> Array:
        speeds = np.zeros(rows)
        speeds[0] = math.log1p(self.ahead)
        if self.groups:
            speeds[1::2] = math.log(1.3)
        return speeds


CASES = (
    Case("equal", _normal),
    Case("groups of equals", _normal, groups=True),
    Case("spreads of 2 to 30 %", _unequal),
    Case("one row of 30 %", _one_wild),
    Case("two modes", _two_modes),
    Case("heavy tails", _heavy),
)
"""All have a drift of 5 % from block to block."""
AHEAD = tuple(Case(f"{percent} % ahead", _normal, ahead=percent / 100) for percent in (3, 5, 10, 20))


Pair = tuple[int, int]


@dataclass(frozen=True)
class Outcome:
    """Means over simulated runs."""

    false: float
    """Share of the runs with a false statement."""
    power: float
    """Share of the other rows that are shown to be slower than the first."""
    trials: float
    """Number of trials of a row."""


class SimulatedRun:
    """Draws of all phases, rows and blocks, of which some rows may have fewer blocks."""

    def __init__(self, case: Case, phases: int, rows: int, blocks: int, generator: np.random.Generator) -> None:
        drift = np.cumsum(generator.normal(0, DRIFT, (phases, 1, blocks)), axis=-1)
        self._truth = case.log_speeds(rows)
        noise = case.noise(generator, (phases, rows, blocks))
        self._speeds = np.exp(self._truth.reshape(1, -1, 1) + drift + noise)
        self._blocks = [blocks] * rows
        self._pairs = list(combinations(range(rows), 2))

    def centers(self, blocks: int) -> list[list[tuple[Center, int]]]:
        """Returns the centers of the ratios of all pairs in each phase, over at most this number of blocks."""
        counts = [min(each, blocks) for each in self._blocks]
        return [
            pair_centers([dict(enumerate(row[:count])) for row, count in zip(rows, counts, strict=True)])
            for rows in self._speeds.tolist()
        ]

    def judge(self, centers: Sequence[Sequence[tuple[Center, int]]], family: Family) -> list[dict[Pair, str]]:
        """Returns the kinds of the verdicts on all pairs, in each phase."""
        kinds = []
        for of_phase in centers:
            moderated = [family.common.moderate(center, blocks) for center, blocks in of_phase]
            halves = [center.half(family.confidence) for center in moderated]
            of_pairs = [
                kind_of(center.log - half, center.log + half, MARGIN)
                for center, half in zip(moderated, halves, strict=True)
            ]
            kinds.append(dict(zip(self._pairs, of_pairs, strict=True)))
        return kinds

    def family(self, centers: Sequence[Sequence[tuple[Center, int]]], looks: int = 1) -> Family:
        return make_family(centers, len(self._pairs) * len(centers), looks)

    def decide(self, first: int) -> Outcome:
        """Adds blocks from the number `first` on, without rows that are in no open comparison with the best."""
        active = set(range(len(self._blocks)))
        for blocks in range(first, self._speeds.shape[-1] + 1):
            centers = self.centers(blocks)
            kinds = self.judge(centers, self.family(centers, LOOKS))
            still = set[int]()
            for of_phase, of_pairs in zip(centers, kinds, strict=True):
                best = self._find_best([center.log for center, _ in of_phase])
                still |= {
                    row for pair, kind in of_pairs.items() if best in pair and kind == "unclear" for row in pair
                }
            for row in active - still:
                self._blocks[row] = blocks
            active &= still
            if not active:
                break
        return self.outcome(kinds)

    def _find_best(self, logs: Sequence[float]) -> int:
        wins = [0] * len(self._blocks)
        for (one, other), log in zip(self._pairs, logs, strict=True):
            wins[one if log > 0 else other] += 1
        return wins.index(max(wins))

    def outcome(self, kinds: Sequence[Mapping[Pair, str]]) -> Outcome:
        stated = [each for of_phase in kinds for each in of_phase.items()]
        shown = [kind == "faster" for (one, _), kind in stated if one == 0]
        false = any(self._is_false(pair, kind) for pair, kind in stated)
        return Outcome(float(false), fmean(shown), fmean(self._blocks))

    def _is_false(self, pair: Pair, kind: str) -> bool:
        ahead = float(self._truth[pair[0]] - self._truth[pair[1]])
        if kind == "faster":
            return ahead <= 0
        if kind == "slower":
            return ahead >= 0
        return kind == "alike" and abs(ahead) > math.log1p(MARGIN) + 1e-9


def simulate(case: Case, phases: int, rows: int, blocks: int, seed: int, draws: int) -> tuple[Outcome, Outcome]:
    """Returns the mean outcomes of runs by their family, and if each pair is read alone."""
    outcomes, alone = list[Outcome](), list[Outcome]()
    for draw in range(draws):
        run = SimulatedRun(case, phases, rows, blocks, np.random.default_rng([seed, phases, rows, blocks, draw]))
        centers = run.centers(blocks)
        outcomes.append(run.outcome(run.judge(centers, run.family(centers))))
        alone.append(run.outcome(run.judge(centers, ALONE)))
    return _mean(outcomes), _mean(alone)


def simulate_decisions(case: Case, phases: int, rows: int, first: int, seed: int, draws: int) -> Outcome:
    """Returns the mean outcome of runs that add up to MOST_BLOCKS blocks until all is decided."""
    generators = (np.random.default_rng([seed, phases, rows, draw]) for draw in range(draws))
    return _mean([SimulatedRun(case, phases, rows, MOST_BLOCKS, each).decide(first) for each in generators])


def simulate_versions(case: Case, versions: int, blocks: int, seed: int, draws: int) -> tuple[float, float]:
    """Returns the share of runs of a series of versions with a false change, and the share in which a version that is
    10 % slower, as are all later ones, is found. Each series is judged with and without that version."""
    false, found = 0, 0
    for draw in range(draws):
        generator = np.random.default_rng([seed, versions, blocks, draw])
        at = int(generator.integers(1, versions))
        drift = np.cumsum(generator.normal(0, DRIFT, blocks))
        logs = drift + case.noise(generator, (1, versions, blocks))[0]
        slower = math.log1p(-PLANTED) * (np.arange(versions) >= at).reshape(-1, 1)
        without, planted = map(_find_steps, (logs, logs + slower))
        false += bool(without) or any(not step.first < at <= step.last for step in planted)
        found += [step.at for step in planted] == [at]
    return false / draws, found / draws


def _find_steps(logs: Array) -> list[Step]:
    rows = [dict(enumerate(row)) for row in np.exp(logs).tolist()]
    return SpeedSteps(rows, make_versions_family([rows])).find()


def _mean(outcomes: Sequence[Outcome]) -> Outcome:
    return Outcome(*(fmean(getattr(each, name.name) for each in outcomes) for name in fields(Outcome)))
