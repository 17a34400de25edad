"""A gate for CI: is a run slower than its base, by more than a margin?

A row fails if it is shown to be slower by more than the margin; one that may or may not be is 'unclear', and passes
unless asked to be strict. A gate that fails one build in twenty for nothing is soon switched off: all rows together
fail by chance at most once in a hundred times, whatever their number (Holm, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dyno.stats.estimate import Center, around
from dyno.stats.student import tail
from dyno.stats.two_runs import Between, Change
from dyno.stats.verdict import FEWEST_BLOCKS, Verdict, blocks_needed

CHANCE = 0.01
"""Of failing although no row is slower by more than the margin."""
CONFIDENCE = 1 - 2 * CHANCE
"""Of the gate's intervals: each end is wrong as rarely as the gate."""


@dataclass(frozen=True, slots=True)
class GateResult:
    change: Change
    state: str
    """'slower' than the margin allows, 'fine', or 'unclear'."""
    verdict: Verdict
    """The same decision as a verdict, with the gate's interval: 'slower' and 'unclear' as the state; of what is fine
    'faster' if that is shown, or 'alike', with the most by which it may be slower as its bound."""


def gate(found: Between, margin: float) -> list[GateResult]:
    """Every row that both runs have a number for."""
    failed = _failed(found.changes, margin)
    judged = []
    for at, change in enumerate(found.changes):
        threshold = _threshold(change, margin)
        ratio, blocks = change.verdict.ratio or 0.0, change.verdict.blocks
        verdict = decide(
            change.center, ratio, blocks, threshold, at in failed, len(found.changes), change.metric.inverse
        )
        judged.append(GateResult(change, state_of(verdict), verdict))
    return judged


def state_of(verdict: Verdict) -> str:
    return verdict.kind if verdict.kind in ("slower", "unclear") else "fine"


def decide(
    center: Center | None,
    ratio: float,
    blocks: int,
    threshold: float,
    failed: bool,
    rows: int = 1,
    times: bool = False,
) -> Verdict:
    """The gate's verdict on one of so many rows. `threshold`: the logarithm of the least speed that passes; `times`:
    whether bounds are shares of times, as the margin is then, and not of speeds."""
    if center is None:
        return Verdict("unclear", None, None, None, None, blocks, FEWEST_BLOCKS - blocks)
    half = center.half(CONFIDENCE)
    low, high = center.log - half, center.log + half
    seen = around(ratio, center, CONFIDENCE)
    more = None
    if failed:
        kind, bound = "slower", _less(high, times)
    elif low >= threshold:
        kind, bound = ("faster", math.exp(low) - 1) if low > 0 else ("alike", _less(low, times))
    else:
        kind, bound = "unclear", None
        more = blocks_needed(
            center,
            blocks,
            lambda half: center.log + half < threshold or center.log - half >= threshold,
            1 - 2 * CHANCE / rows,
        )
    return Verdict(kind, ratio, seen.low, seen.high, bound, blocks, more)


def _less(log: float, times: bool) -> float:
    """By what share a speed is less, or its time longer."""
    return math.expm1(-log) if times else -math.expm1(log)


def _threshold(change: Change, margin: float) -> float:
    """The logarithm of the least speed that passes, as a share of that of the base."""
    # A latency that is 5 % longer is a speed of 1 / 1.05.
    return -math.log1p(margin) if change.metric.inverse else math.log1p(-margin)


def _failed(changes: Sequence[Change], margin: float) -> set[int]:
    """Places of those that are slower, from the surest on, for as long as chance can't explain them."""
    by_chance = {
        at: chance(change.center, _threshold(change, margin))
        for at, change in enumerate(changes)
        if change.center is not None
    }
    failed: set[int] = set()
    for at in sorted(by_chance, key=lambda at: by_chance[at]):
        if by_chance[at] > CHANCE / (len(by_chance) - len(failed)):
            break
        failed.add(at)
    return failed


def chance(center: Center, threshold: float) -> float:
    """How probable so slow a run is, if it were just as slow as the margin allows. `threshold`: the logarithm of the
    least speed that passes."""
    distance = threshold - center.log
    if not center.error:
        return 0.0 if distance > 0 else 1.0
    return tail(distance / center.error, center.degrees)
