"""Verdicts on a ratio: faster or slower by at least a bound, no difference larger than the margin, or unclear.

The interval of a ratio that is read alone has a confidence of 99 %, that of a median 95 %. Comparisons that are read
together have that of a family: see `dyno.stats.family`. There is a difference if the interval excludes
1, and none if the interval lies within the margin. Anything else is unclear. The estimate of the further blocks that
would decide assumes that they spread like the measured ones; from three or four blocks it is a rough guess.
"""

import math
from bisect import bisect_left
from collections.abc import Callable

from msgspec import Struct

from dyno.stats.estimate import FEWEST_TRIALS, Center, make_interval, two_sided

CONFIDENCE = 0.99
"""Confidence of the intervals of ratios."""
MARGIN = 0.05
"""Smaller differences don't count."""
MOST_MORE = 1_000
FEWEST_BLOCKS = FEWEST_TRIALS


class Verdict(Struct, frozen=True, kw_only=True):
    kind: str
    """`faster`, `slower`, `alike` (no difference above the margin) or `unclear`."""
    ratio: float | None = None
    """Ratio of speeds: above 1 is better, for times and memory too; null under 3 blocks."""
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    """The smallest difference if faster or slower, the largest if alike, as a share of the baseline."""
    blocks: int
    more: int | None = None
    """If unclear: the approximate number of further samples that would decide; null if it is over a thousand."""


def approximate_samples(number: int | None) -> str:
    """Returns 'about 58', or 'over 1,000' for more, which is None or MOST_MORE."""
    if number is None or number >= MOST_MORE:
        return f"over {MOST_MORE:,}"
    return f"about {number:,}"


def forecast_samples(spread: float, difference: float) -> int | None:
    """Returns the number of samples after which a difference is shown, as a share of the speed, if the logarithms of
    a row's speeds have this standard deviation. None if it is over a thousand."""
    blocks = FEWEST_BLOCKS
    center = Center(math.log1p(difference), spread * math.sqrt(2 / blocks), blocks - 1)
    more = blocks_needed(center, blocks, lambda half: half < center.log, CONFIDENCE)
    if more is None:
        return None
    return blocks + more


def judge(
    center: Center | None, ratio: float, blocks: int, margin: float = MARGIN, confidence: float = CONFIDENCE
) -> Verdict:
    """Returns the verdict on a ratio from this number of blocks. For two runs, `blocks` is the number of trials of
    the run with fewer trials. `confidence`: that of the interval."""
    if center is None or blocks < FEWEST_BLOCKS:
        return Verdict(kind="unclear", blocks=blocks, more=FEWEST_BLOCKS - blocks)
    interval = make_interval(ratio, center, confidence)
    low, high = interval.low or ratio, interval.high or ratio
    kind = kind_of(math.log(low), math.log(high), margin)
    bounds = {"faster": low - 1, "slower": 1 - high, "alike": max(high - 1, 1 / low - 1)}
    more = None
    if kind == "unclear":
        clear = lambda half: kind_of(center.log - half, center.log + half, margin) != "unclear"  # noqa: E731
        more = blocks_needed(center, blocks, clear, confidence)
    return Verdict(kind=kind, ratio=ratio, low=low, high=high, bound=bounds.get(kind), blocks=blocks, more=more)


def kind_of(low: float, high: float, margin: float) -> str:
    """Returns the kind of a verdict, given the logarithms of the interval's ends."""
    if low > 0:
        return "faster"
    if high < 0:
        return "slower"
    if max(high, -low) <= math.log1p(margin):
        return "alike"
    return "unclear"


def blocks_needed(center: Center, blocks: int, clear: Callable[[float], bool], confidence: float) -> int | None:
    """Returns the number of further blocks after which the interval is narrow enough, if they spread like the
    measured ones. None if it is over MOST_MORE. `clear` returns whether an interval of this half-width decides."""

    def tells(more: int) -> bool:
        error = center.error / math.sqrt((blocks + more) / blocks)
        return clear(two_sided(confidence, center.degrees + more) * error)

    more = bisect_left(range(1, MOST_MORE + 1), True, key=tells) + 1
    if more <= MOST_MORE:
        return more
    return None
