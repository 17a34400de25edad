"""Where in a series of runs a row's speed changed, and by how much.

The unit is a run: its median is one value, so that what differs from one run to the next without a reason (a machine
that was set up anew) is noise here, and in the interval. The series is cut where the energy distance between what is
before and what comes next is largest (E-divisive: David S. Matteson and Nicholas A. James, "A Nonparametric Approach
for Multiple Change Point Analysis of Multivariate Data", 2014), and both parts again. A cut stands if values in
random order have one as large in at most 5 % of the permutations. That is exact whatever the noise, if runs without a
change could have come in any order: a slow drift of the machine is a change too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import UsageError
from dyno.results import Run
from dyno.stats.estimate import apart
from dyno.stats.metric import Metric, fitting, speeds
from dyno.stats.summary import CellSummary
from dyno.stats.two_runs import rows_of
from dyno.stats.verdict import MARGIN, Verdict, judge

CHANCE = 0.05
"""In so many series without a change, at most, one is found."""
PERMUTATIONS = 999
FEWEST_BESIDE = 3
"""Runs on each side of a change: fewer have no interval."""
FEWEST_RUNS = 8
"""Of fewer, no order of the values is rare enough."""
NEAR = 1e-9
"""Sums of the same numbers in another order differ by no more."""
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """A change of one row."""

    row: CellSummary
    """As it is in the first run after it."""
    metric: Metric
    before: Run
    """The last run before it."""
    at: Run
    """The first run after it."""
    runs: tuple[int, int]
    """How many runs are on each side, up to the next change."""
    verdict: Verdict
    """After seen from before: of medians of runs."""


def steps(runs: Sequence[Run], by: Metric | None = None, margin: float = MARGIN) -> list[SpeedChange]:
    """The changes of every row, in the order in which the runs were made. Raises UsageError for too few runs."""
    ordered = sorted(runs, key=lambda run: str(run.header.get("created") or ""))
    if len(ordered) < FEWEST_RUNS:
        raise UsageError(f"a history takes {FEWEST_RUNS} runs or more, not {len(ordered)}; dyno compare takes two")
    for what in ("suite", "awake"):
        if len({str(run.plan.get(what)) for run in ordered}) > 1:
            raise UsageError(f"runs of several plans (their {what} differs) are no history: name those of one")
    rows = [rows_of(run) for run in ordered]
    found = []
    for key in dict.fromkeys(key for each in rows for key in each):
        mine = [(run, each[key]) for run, each in zip(ordered, rows, strict=True) if key in each]
        found += _steps(mine, by or fitting([row for _, row in mine]), margin)
    return sorted(found, key=lambda step: ordered.index(step.at))


def _steps(mine: Sequence[tuple[Run, CellSummary]], by: Metric, margin: float) -> list[SpeedChange]:
    told = [(run, row, median(of.values())) for run, row in mine if (of := speeds(row, by))]
    return [
        SpeedChange(told[at][1], by, told[at - 1][0], told[at][0], beside, verdict)
        for at, beside, verdict in judged([value for _, _, value in told], margin)
    ]


def judged(values: Sequence[float], margin: float = MARGIN) -> list[tuple[int, tuple[int, int], Verdict]]:
    """The changes of a series of speeds: its place, how many values are on each side of it, up to the next, and what
    is after seen from what is before."""
    ends = [0, *changes(values), len(values)]
    found = []
    for first, at, last in zip(ends, ends[1:], ends[2:], strict=False):
        old, new = values[first:at], values[at:last]
        fewest = min(len(old), len(new))
        verdict = judge(apart(new, old), median(new) / median(old), fewest, margin)
        found.append((at, (len(old), len(new)), verdict))
    return found


def changes(values: Sequence[float], chance: float = CHANCE, seed: int = 1) -> list[int]:
    """The places, in order, before which a series of positive values changes."""
    return sorted(_cuts(np.log(np.asarray(values, dtype=float)), 0, chance, np.random.default_rng(seed)))


def _cuts(values: Values, first: int, chance: float, random: np.random.Generator) -> list[int]:
    if len(values) < 2 * FEWEST_BESIDE:
        return []
    distances = np.abs(values[:, None] - values[None, :])
    energies = _energies(distances)
    most = energies.max()
    cut = FEWEST_BESIDE + int(energies.argmax()) // energies.shape[1]
    reached = 0
    for _ in range(PERMUTATIONS):
        order = random.permutation(len(values))
        reached += bool(_energies(distances[np.ix_(order, order)]).max() >= most * (1 - NEAR) - NEAR)
        # More can't take it back.
        if (1 + reached) / (1 + PERMUTATIONS) > chance:
            return []
    before, after = values[:cut], values[cut:]
    return [
        first + cut,
        *_cuts(before, first, chance, random),
        *_cuts(after, first + cut, chance, random),
    ]


def _energies(distances: Values) -> Values:
    """Of each cut, and of each end of what comes next: twice the mean distance across the cut, less those within each
    part, weighted by their numbers. Without an end of its own, what changes and changes back would hide itself."""
    count = len(distances)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    cut = np.arange(FEWEST_BESIDE, count - FEWEST_BESIDE + 1)[:, None]
    end = np.arange(2 * FEWEST_BESIDE, count + 1)[None, :]
    enough = end - cut >= FEWEST_BESIDE
    m, n = cut.astype(float), np.where(enough, end - cut, FEWEST_BESIDE).astype(float)
    within = sums[cut, cut]
    across = sums[cut, end] - within
    after = sums[end, end] - 2 * across - within
    found = m * n / (m + n) * (2 * across / (m * n) - within / (m * (m - 1)) - after / (n * (n - 1)))
    return np.where(enough, found, -np.inf)
