"""A gate for CI: is a run slower than its base, by more than a margin?

A row fails if it is shown to be slower by more than the margin; one that may or may not be is 'unclear', and passes
unless asked to be strict. A gate that fails one build in twenty for nothing is soon switched off: all rows together
fail by chance at most once in a hundred times, whatever their number (Holm, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dyno.stats.between import Between, Change
from dyno.stats.estimate import Center
from dyno.stats.student import tail, two_sided

CHANCE = 0.01
"""Of failing although no row is slower by more than the margin."""


@dataclass(frozen=True, slots=True)
class Judged:
    change: Change
    state: str
    """'slower' than the margin allows, 'fine', or 'unclear'."""


def gate(found: Between, margin: float) -> list[Judged]:
    """Every row that both runs have a number for."""
    failed = _failed(found.changes, margin)
    return [
        Judged(change, "slower" if at in failed else "fine" if _fine(change, margin) else "unclear")
        for at, change in enumerate(found.changes)
    ]


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


def _fine(change: Change, margin: float) -> bool:
    """Shown not to be slower, by an interval of the same confidence."""
    if change.center is None:
        return False
    half = two_sided(1 - 2 * CHANCE, change.center.degrees) * change.center.error
    return change.center.log - half >= _threshold(change, margin)
