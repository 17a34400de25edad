"""Test for a steady write rate, and facts of the time before.

The test is that of the Solid State Storage Performance Test Specification (SNIA, 2020): the rates of the last five
rounds lie within 20 % of their mean, and their regression line rises or falls by at most 10 % of it. SNIA's rounds
last a minute or more; here they can be shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import linear_regression, mean

from dyno.contracts.model import Fact
from dyno.suites.volume import Round

WINDOW, RANGE, SLOPE = 5, 0.20, 0.10


def steady(rates: Sequence[float]) -> bool:
    """Whether the last five rounds are alike. False for fewer."""
    last = list(rates)[-WINDOW:]
    middle = mean(last) if len(last) == WINDOW else 0.0
    if not middle:
        return False
    slope = linear_regression(range(WINDOW), last).slope
    return max(last) - min(last) <= RANGE * middle and abs(slope) * (WINDOW - 1) <= SLOPE * middle


def enough(rounds: Sequence[Round], block_size: int, size: int) -> bool:
    """Whether a warm-up may end: before the last five rounds every block was written, and their rate is steady. fio
    writes each block once before any a second time."""
    written = sum(each.operations for each in rounds[:-WINDOW]) * block_size
    return written >= size and steady([each.per_second for each in rounds])


def facts(rounds: Sequence[Round], block_size: int, size: int) -> dict[str, Fact]:
    """Facts of a warm-up. Those that need a steady rate are None if there was none."""
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
    """The rounds until every block was written once."""
    done = 0
    for at, each in enumerate(rounds):
        done += each.operations * block_size
        if done >= size:
            return rounds[: at + 1]
    return rounds


def _mean(rounds: Sequence[Round]) -> float | None:
    lasted = sum(each.lasts_ns for each in rounds)
    return sum(each.operations for each in rounds) / lasted * 1e9 if lasted else None
