"""What may be said of a ratio: faster by at least, no difference larger than, or that one can't tell.

The interval of a ratio has a confidence of 99 %, that of a median 95 %: a page of comparisons makes many, and at 95 %
one in twenty between equals would be called different. A difference is called one if the interval does not reach 1,
and none if it lies within the margin. Anything else can't be told, and so many more blocks would probably tell: their
number supposes that further blocks spread as those did that are there, which of three or four is a rough guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from dyno.stats.estimate import FEWEST_TRIALS, Center, around
from dyno.stats.student import two_sided

CONFIDENCE = 0.99
"""Of the intervals of ratios."""
MARGIN = 0.05
"""A difference under this is none."""
MOST_MORE = 1_000
FEWEST_BLOCKS = FEWEST_TRIALS


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: str
    """'faster', 'slower', 'alike' or 'unclear'."""
    ratio: float | None
    """Speed as a share of the baseline's; None under three blocks. Of a latency, speed is its inverse."""
    low: float | None
    high: float | None
    bound: float | None
    """Of 'faster' and 'slower': the least difference, as a share of the baseline; of 'alike': the largest."""
    blocks: int
    more: int | None
    """Of 'unclear': about so many more blocks would tell; None where it would take over a thousand."""


def judge(found: Center | None, ratio: float, blocks: int, margin: float = MARGIN) -> Verdict:
    """The verdict on a ratio from so many blocks (of two runs: from so many trials of the run with fewer)."""
    if found is None or blocks < FEWEST_BLOCKS:
        return Verdict("unclear", None, None, None, None, blocks, FEWEST_BLOCKS - blocks)
    over = around(ratio, found, CONFIDENCE)
    low, high = over.low or ratio, over.high or ratio
    kind = _kind(math.log(low), math.log(high), margin)
    bounds = {"faster": low - 1, "slower": 1 - high, "alike": max(high - 1, 1 / low - 1)}
    more = None
    if kind == "unclear":
        clear = lambda half: _kind(found.log - half, found.log + half, margin) != "unclear"  # noqa: E731
        more = blocks_needed(found, blocks, clear)
    return Verdict(kind, ratio, low, high, bounds.get(kind), blocks, more)


def _kind(low: float, high: float, margin: float) -> str:
    """Of the logarithms of an interval."""
    if low > 0:
        return "faster"
    if high < 0:
        return "slower"
    return "alike" if max(high, -low) <= math.log1p(margin) else "unclear"


@cache
def _of_whole(confidence: float, degrees: int) -> float:
    return two_sided(confidence, degrees)


def blocks_needed(
    found: Center, blocks: int, clear: Callable[[float], bool], confidence: float = CONFIDENCE
) -> int | None:
    """Number of further blocks after which the interval is narrow enough, if they spread as those measured do. None
    if that takes over MOST_MORE. `clear`: whether an interval of this half-width decides."""

    def tells(more: int) -> bool:
        error = found.error / math.sqrt((blocks + more) / blocks)
        # Student's t takes long to find, and falls with the degrees: as a rule that of a whole number of them tells.
        degrees = found.degrees + more
        if clear(_of_whole(confidence, math.floor(degrees)) * error):
            return True
        nearly = clear(_of_whole(confidence, math.ceil(degrees)) * error)
        return nearly and clear(two_sided(confidence, degrees) * error)

    low, high = 0, 1
    while not tells(high):
        low, high = high, high * 2
        if low > MOST_MORE:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tells(middle) else (middle, high)
    return high if high <= MOST_MORE else None
