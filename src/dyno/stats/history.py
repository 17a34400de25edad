"""Finds where in a series of runs a row's speed changed, and by how much.

Each run's median is one value. So differences between runs without a known reason, for example after setting up a
machine anew, count as noise, also in the interval. The series is cut where the energy distance between the values
before and after is largest, and then both parts are cut again (E-divisive: David S. Matteson and Nicholas A. James,
"A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", 2014). A cut counts if at most 5 %
of the permutations of the values have a cut with such a large distance. This is exact for any noise, if runs without
a change could have come in any order. A slow drift of the machine is a change too.

Where a change is, is less sure than that there is one: its interval of runs has it in 95 of 100 cases.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import UsageError
from dyno.results import Run
from dyno.stats.estimate import compare_unpaired
from dyno.stats.matching import matched_rows
from dyno.stats.metric import Metric, choose_metric, speeds
from dyno.stats.summary import CellSummary
from dyno.stats.verdict import MARGIN, Verdict, judge

CHANCE = 0.05
"""Largest share of series without a change in which a change is reported."""
SURE = 0.95
"""Probability that a change is in its interval of runs."""
PERMUTATIONS = 999
FEWEST_BESIDE = 3
"""Minimum number of runs on each side of a change: fewer have no interval."""
FEWEST_RUNS = 8
"""Minimum number of runs: with fewer runs, no order of the values is rare enough."""
NEAR = 1e-9
"""Tolerance for sums of the same numbers in another order."""
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """A change of one row's speed."""

    row: CellSummary
    """The row in the first run after the change."""
    metric: Metric
    before: Run
    """The last run before the change."""
    at: Run
    """The first run after the change."""
    since: Run
    """The last run that is surely before the change, at 95 %: the change is after it ..."""
    until: Run
    """... and at or before this run."""
    runs: tuple[int, int]
    """Number of runs on each side, up to the next change."""
    verdict: Verdict
    """Verdict on the medians of runs, after the change compared with before."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A row that some runs of a history lack, or in which it has no number."""

    row: CellSummary
    runs: int
    """Number of runs with a number."""
    lacking: tuple[tuple[Run, str], ...]
    """The other runs, each with the reason."""


def gaps(runs: Sequence[Run], by: Metric | None = None) -> list[Gap]:
    """Returns the rows that don't have a number in every run."""
    rows = matched_rows(runs)
    with_gaps = []
    for key in dict.fromkeys(key for each in rows for key in each):
        row = next(each[key] for each in rows if key in each)
        lacking = []
        for run, each in zip(runs, rows, strict=True):
            if key not in each:
                lacking.append((run, "not in the run"))
            elif not each[key].valid or not speeds(each[key], by or choose_metric([each[key]])):
                lacking.append((run, each[key].why or "no such figure"))
        if lacking:
            with_gaps.append(Gap(row, len(runs) - len(lacking), tuple(lacking)))
    return with_gaps


def steps(runs: Sequence[Run], by: Metric | None = None, margin: float = MARGIN) -> list[SpeedChange]:
    """Returns the changes of every row, in the order of the runs' dates. Raises UsageError for too few runs, or for
    runs of several plans."""
    ordered = sorted(runs, key=lambda run: run.header.created or "")
    if len(ordered) < FEWEST_RUNS:
        raise UsageError(f"a history needs at least {FEWEST_RUNS} runs, got {len(ordered)}; dyno compare needs two")
    for what in ("suite", "awake"):
        if len({getattr(run.plan, what) for run in ordered}) > 1:
            raise UsageError(f"a history needs runs of one plan; these differ in {what}")
    rows = matched_rows(ordered)
    steps = []
    for key in dict.fromkeys(key for each in rows for key in each):
        series = [(run, each[key]) for run, each in zip(ordered, rows, strict=True) if key in each]
        used = by or choose_metric([row for _, row in series])
        points = [(run, row, median(values.values())) for run, row in series if (values := speeds(row, used))]
        for at, (low, high), runs_beside, verdict in judge_changes([value for _, _, value in points], margin):
            before, here, since, until = (points[place][0] for place in (at - 1, at, low - 1, high))
            steps.append(SpeedChange(points[at][1], used, before, here, since, until, runs_beside, verdict))
    return sorted(steps, key=lambda step: ordered.index(step.at))


def judge_changes(
    values: Sequence[float], margin: float = MARGIN
) -> Iterator[tuple[int, tuple[int, int], tuple[int, int], Verdict]]:
    """Yields the changes of a series of speeds. Each has its position, the first and last position at which it may be
    at 95 %, the number of values on each side up to the next change, and the verdict on the values after it compared
    with those before."""
    ends = [0, *changes(values), len(values)]
    for first, at, last in zip(ends, ends[1:], ends[2:], strict=False):
        old, new = values[first:at], values[at:last]
        verdict = judge(compare_unpaired(new, old), median(new) / median(old), min(len(old), len(new)), margin)
        low, high = _places(np.log(np.asarray(values[first:last], dtype=float)))
        yield at, (min(first + low, at), max(first + high, at)), (len(old), len(new)), verdict


def _places(values: Values) -> tuple[int, int]:
    """Returns the first and the last of the most probable positions of the only change of a series of logarithms,
    which have a probability of 95 % together.

    All positions are equally probable beforehand, and both sides have noise of one size by Laplace's law, of which a
    single run that went wrong is a part: with normal noise, one would be taken for a side of its own.
    """
    count = len(values)
    cuts = np.arange(1, count)
    apart = [np.abs(part - np.median(part)).sum() for cut in cuts for part in (values[:cut], values[cut:])]
    deviations = np.array(apart).reshape(-1, 2).sum(axis=1)
    logs = -(count - 2) * np.log(deviations + NEAR) - np.log(cuts * (count - cuts)) / 2
    chances = np.exp(logs - logs.max())
    order = np.argsort(-chances)
    enough = int(np.searchsorted(np.cumsum(chances[order]), SURE * chances.sum())) + 1
    places = cuts[order[:enough]]
    return int(places.min()), int(places.max())


def changes(values: Sequence[float], chance: float = CHANCE, seed: int = 1) -> list[int]:
    """Returns the positions, in order, before which a series of positive values changes."""
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
        # Stop early: with this many, the cut can't become significant.
        if (1 + reached) / (1 + PERMUTATIONS) > chance:
            return []
    before, after = values[:cut], values[cut:]
    return [first + cut, *_cuts(before, first, chance, random), *_cuts(after, first + cut, chance, random)]


def _energies(distances: Values) -> Values:
    """Returns the energy distance of each cut and each end of the part after it. The distance is twice the mean
    distance across the cut, minus the mean distances within each part, weighted by the sizes of the parts. With
    several ends, a change that is later undone is visible."""
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
    energies = m * n / (m + n) * (2 * across / (m * n) - within / (m * (m - 1)) - after / (n * (n - 1)))
    return np.where(enough, energies, -np.inf)
