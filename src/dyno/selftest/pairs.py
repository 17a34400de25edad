"""Rows against each other: equal ones, one with a planted slowdown, one whose client is the bottleneck."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median
from typing import NamedTuple

from dyno.results import Run
from dyno.selftest import Verdict
from dyno.selftest.trials import PHASE, trials
from dyno.stats.compare import ratios
from dyno.stats.doubts import doubts
from dyno.stats.estimate import CONFIDENCE, FEWEST_TRIALS, around, center
from dyno.stats.summary import summarize

BLOCKS, MOST_RUNS = 8, 4
NARROW = 0.04
"""Until the interval is this narrow to each side, further blocks are added: a machine may be busy."""
OPERATIONS = 50_000
PLANTED_PERCENT = 10
# Half and one and a half of the planted slowdown: what may pass for it.
LEAST, MOST = 0.05, 0.15
ALIKE = 0.03
BUSY_TRIALS = 3
"""The busiest counts: others may take the client's core in one."""
BASE, AGAIN, SLOWER = "synthetic", "synthetic:slower=0", f"synthetic:slower={PLANTED_PERCENT}"


def same(work: Path) -> Verdict:
    """The same engine twice. One interval in twenty leaves 1 out by chance: it fails for one that is 3 % away."""
    found = _compared(work, AGAIN)
    differ = found.high < 1 - ALIKE or found.low > 1 + ALIKE
    # A wide interval has room for what is looked for.
    alike = not differ and found.high - found.low <= 2 * LEAST
    return _verdict(alike, differ, found, "A against A")


def slower(work: Path) -> Verdict:
    """An engine that does 10 % more work, and the same without: the difference is found, and its size."""
    found = _compared(work, SLOWER)
    right = found.high < 1 and LEAST <= 1 / found.median - 1 <= MOST
    missed = found.low > 1 / (1 + LEAST) or found.high < 1 / (1 + MOST)
    return _verdict(right, missed, found, f"{PLANTED_PERCENT} % more work")


class Ratio(NamedTuple):
    median: float
    low: float
    high: float
    blocks: int


def _compared(work: Path, engine: str) -> Ratio:
    """The throughput of `engine` as a share of the base's. Raises RuntimeError where blocks have no sample."""
    found: list[float] = []
    for _ in range(MOST_RUNS):
        run = trials(work, "pairs", [BASE, engine], samples=BLOCKS, params={"operations": [OPERATIONS]})
        found += ratios(run, PHASE, engine, BASE)
        if len(found) < FEWEST_TRIALS:
            raise RuntimeError("too few blocks have a sample of both")
        over = around(median(found), center(found), CONFIDENCE)
        ratio = Ratio(over.median, over.low or 0.0, over.high or math.inf, len(found))
        if ratio.high - ratio.low <= 2 * NARROW:
            break
    return ratio


def _verdict(right: bool, wrong: bool, found: Ratio, what: str) -> Verdict:
    """Neither right nor wrong: the interval is too wide to say, which is the machine's fault and not Dyno's."""
    text = f"{what}: {found.median:.3f} of the throughput,"
    text += f" 95 % interval {found.low:.3f} to {found.high:.3f}, from {found.blocks} blocks"
    if not right and not wrong:
        return Verdict(None, f"{text}; this machine is too busy to tell, dyno doctor says more", _figures(found))
    return Verdict(right, text, _figures(found))


def _figures(found: Ratio) -> dict[str, float]:
    return {"ratio": found.median, "low": found.low, "high": found.high}


def client(work: Path) -> Verdict:
    """Two servers that do nothing: one whose client computes all the time, one whose client waits for it."""
    busy = _noticed(trials(work, "busy", ["synthetic:server=yes"], samples=BUSY_TRIALS))
    waiting = _noticed(
        trials(work, "waiting", ["synthetic:server=yes+wait_us=1000"], samples=1, params={"operations": [200]})
    )
    text = f"a client that computes all the time is {'' if busy else 'not '}noticed,"
    text += f" one that waits is {'' if waiting else 'not '}suspected"
    return Verdict(busy and not waiting, text)


def _noticed(run: Run) -> bool:
    return any(doubt.code == "client" for row in summarize(run) for doubt in doubts(row, run))
