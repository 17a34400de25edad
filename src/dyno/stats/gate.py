"""A gate for CI: is a run slower than its base by more than a margin?

A row fails if it is shown to be slower by more than the margin. If that is unclear, the row passes, unless the gate
is strict. A gate that fails one build in twenty without a reason is soon switched off. So all rows together fail by
chance in at most 1 % of the builds, however many rows there are (Holm, 1979).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dyno.stats.estimate import Center, around, tail
from dyno.stats.two_runs import Between, Change
from dyno.stats.verdict import FEWEST_BLOCKS, Verdict, blocks_needed

CHANCE = 0.01
"""Probability that the gate fails although no row is slower by more than the margin."""
CONFIDENCE = 1 - 2 * CHANCE
"""Confidence of the gate's intervals. Each end is wrong with the probability CHANCE."""


@dataclass(frozen=True, slots=True)
class GateResult:
    change: Change
    state: str
    """'slower' than the margin allows, 'fine' or 'unclear'."""
    verdict: Verdict
    """The same decision with the gate's interval. For the states 'slower' and 'unclear', its kind is the state. For
    'fine', its kind is 'faster' if that is shown, else 'alike', with the largest possible slowdown as its bound."""


def gate(of: Between, margin: float) -> list[GateResult]:
    """Returns a result for every row with a number in both runs."""
    failed = _failed(of.changes, margin)
    results = []
    for at, change in enumerate(of.changes):
        ratio, blocks = change.verdict.ratio or 0.0, change.verdict.blocks
        threshold, times = _threshold(change, margin), change.metric.inverse
        verdict = decide(change.center, ratio, blocks, threshold, at in failed, len(of.changes), times)
        results.append(GateResult(change, verdict.kind if verdict.kind in ("slower", "unclear") else "fine", verdict))
    return results


def decide(
    center: Center | None,
    ratio: float,
    blocks: int,
    threshold: float,
    failed: bool,
    rows: int = 1,
    times: bool = False,
) -> Verdict:
    """Returns the gate's verdict on one of `rows` rows. `threshold`: logarithm of the lowest relative speed that
    passes. `times`: whether bounds are shares of times, as the margin of a latency is, rather than of speeds."""
    if center is None:
        return Verdict("unclear", None, None, None, None, blocks, FEWEST_BLOCKS - blocks)
    half = center.half(CONFIDENCE)
    low, high = center.log - half, center.log + half
    interval = around(ratio, center, CONFIDENCE)
    more = None
    if failed:
        kind, bound = "slower", _loss(high, times)
    elif low >= threshold:
        kind, bound = ("faster", math.exp(low) - 1) if low > 0 else ("alike", _loss(low, times))
    else:
        kind, bound = "unclear", None
        clear = lambda half: center.log + half < threshold or center.log - half >= threshold  # noqa: E731
        more = blocks_needed(center, blocks, clear, 1 - 2 * CHANCE / rows)
    return Verdict(kind, ratio, interval.low, interval.high, bound, blocks, more)


def _loss(log: float, times: bool) -> float:
    """Returns the share by which the speed is lower, or with `times`, by which the time is longer."""
    return math.expm1(-log) if times else -math.expm1(log)


def _threshold(change: Change, margin: float) -> float:
    """Returns the logarithm of the lowest speed that passes, relative to the base's."""
    # A latency that is 5 % longer is a speed of 1 / 1.05.
    return -math.log1p(margin) if change.metric.inverse else math.log1p(-margin)


def _failed(changes: Sequence[Change], margin: float) -> set[int]:
    """Returns the positions of the slower rows by Holm's method: the most significant first, up to the first row that
    chance can explain."""
    centers = {at: change.center for at, change in enumerate(changes) if change.center is not None}
    by_chance = {at: chance(center, _threshold(changes[at], margin)) for at, center in centers.items()}
    failed: set[int] = set()
    for at in sorted(by_chance, key=lambda at: by_chance[at]):
        if by_chance[at] > CHANCE / (len(by_chance) - len(failed)):
            break
        failed.add(at)
    return failed


def chance(center: Center, threshold: float) -> float:
    """Returns the probability of such a slow run if the run were exactly as slow as the margin allows. `threshold`:
    logarithm of the lowest relative speed that passes."""
    distance = threshold - center.log
    if not center.error:
        return 0.0 if distance > 0 else 1.0
    return tail(distance / center.error, center.degrees)
