"""When the rate of a volume that is being written to is steady, and what it was before.

The test is that of the Solid State Storage Performance Test Specification (SNIA, 2020): of the last five rounds, the
rates reach from the least to the most over at most 20 % of their mean, and the best line through them rises or falls
over the five by at most 10 % of it. Its rounds are of a minute, or more; here they are as long as is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import linear_regression, mean

from dyno.contracts.model import Fact
from dyno.suites.volume.port import Round

WINDOW, RANGE, SLOPE = 5, 0.20, 0.10


def steady(rates: Sequence[float]) -> bool:
    """Whether the last rounds are alike. False of fewer than five."""
    last = list(rates)[-WINDOW:]
    middle = mean(last) if len(last) == WINDOW else 0.0
    if not middle:
        return False
    slope = linear_regression(range(WINDOW), last).slope
    return max(last) - min(last) <= RANGE * middle and abs(slope) * (WINDOW - 1) <= SLOPE * middle


def written(rounds: Sequence[Round], block_size: int, size: int) -> bool:
    """Whether every block has been written before the last five rounds: each is written once before any is again."""
    return sum(each.operations for each in rounds[:-WINDOW]) * block_size >= size


def enough(rounds: Sequence[Round], block_size: int, size: int) -> bool:
    """Whether a warm-up may end: all is written, and what is written again goes at a steady rate."""
    return written(rounds, block_size, size) and steady([each.per_second for each in rounds])


def facts(rounds: Sequence[Round], block_size: int, size: int) -> dict[str, Fact]:
    """What a warm-up showed. Where it did not become steady, what depends on that is None."""
    whole = enough(rounds, block_size, size)
    fresh = _mean(_first_pass(rounds, block_size, size))
    end = _mean(rounds[-WINDOW:]) if whole else None
    return {
        "steady": whole,
        "steady_after_ns": rounds[-WINDOW].ends_ns - rounds[-WINDOW].lasts_ns if whole else None,
        "fresh_per_second": fresh,
        "steady_per_second": end,
        "penalty_percent": None if end is None or fresh is None else (1 - fresh / end) * 100,
        "passes": sum(each.operations for each in rounds) * block_size / size,
    }


def _first_pass(rounds: Sequence[Round], block_size: int, size: int) -> Sequence[Round]:
    """Those in which blocks were written that had never been; of the last of them perhaps a part."""
    done = 0
    for at, each in enumerate(rounds):
        done += each.operations * block_size
        if done >= size:
            return rounds[: at + 1]
    return rounds


def _mean(rounds: Sequence[Round]) -> float | None:
    lasted = sum(each.lasts_ns for each in rounds)
    return sum(each.operations for each in rounds) / lasted * 1e9 if lasted else None
