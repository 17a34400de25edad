"""The clock, and latencies against what the operations say of themselves."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from dyno.contracts.histogram import PERCENTILES, percentiles
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Operations
from dyno.measure.driver import measure
from dyno.measure.loop import Loop, native, pick
from dyno.selftest import Verdict

OPERATIONS = 5_000
MEDIAN_NS, SPREAD = 60_000, 0.8
"""Of a log-normal distribution: p999 is twelve times the median."""
NEAR_PERCENT = 1.0
STRAY = 2
"""Operations that may lose their core between their own last look at the clock and the loop's."""
EXCHANGES = 5_000
DRIFT_PPM = 200.0
SECONDS = 1.0


def latency(work: Path) -> Verdict:
    """Operations of a known distribution, each timed by itself too, on the kernel's clock."""
    worst, told = 0.0, []
    for name in ("native", "python") if native() else ("python",):
        own: list[int] = []
        drawn = np.random.default_rng(1).lognormal(math.log(MEDIAN_NS), SPREAD, OPERATIONS).astype(int).tolist()
        slices = [Operations(lambda _, own=own: (_spinner(own),), drawn, len)]  # type: ignore[misc]
        tally = measure(lambda _, slices=slices: iter(slices), Pace(loop=name), lambda: None)  # type: ignore[misc]
        found = percentiles([tally.latency.encode()])
        off = {
            at: _off(recorded, own, PERCENTILES[at])
            for at in ("p50", "p99", "p999")
            if (recorded := found[at]) is not None
        }
        if not off or not own:
            return Verdict(False, f"{name} loop: no latencies were recorded")
        worst = max(worst, *off.values())
        told.append(f"{name} loop: " + ", ".join(f"{at} off by {value:.2f} %" for at, value in off.items()))
    return Verdict(worst <= NEAR_PERCENT, "; ".join(told), {"worst_percent": worst})


def _spinner(own: list[int]) -> Any:
    """An operation that looks at the clock until its time is over, and notes how long it was at it."""
    clock, noted = time.perf_counter_ns, own.append

    def spin(ns: int) -> None:
        start = now = clock()
        while now - start < ns:
            now = clock()
        noted(now - start)

    return spin


def _off(found: int, own: Sequence[int], percentile: float) -> float:
    """By how many percent a percentile differs from that of the values themselves."""
    # The same rank as the histogram's, or one near it: neighbours in the tail differ by more than what is looked for.
    true, rank = sorted(own), max(int(percentile / 100 * len(own) + 0.5) - 1, 0)
    nearest = min(max(found, true[max(rank - STRAY, 0)]), true[min(rank + STRAY, len(own) - 1)])
    return abs(found - nearest) / nearest * 100


def clock(work: Path) -> Verdict:
    """Two processes, each on a core of its own where there are two, throw readings of the clock to each other."""
    loop = pick()
    backwards = _thrown(loop)
    begin, own = time.monotonic_ns(), loop.now()
    time.sleep(SECONDS)
    loop.calibrate()
    passed, measured = time.monotonic_ns() - begin, loop.now() - own
    drift = abs(measured - passed) / passed * 1e6
    text = f"{loop.CLOCK}: {backwards} of {2 * EXCHANGES:,} readings ran backwards between two processes;"
    text += f" it differs from the kernel's clock by {drift:.0f} parts in a million"
    return Verdict(not backwards and drift <= DRIFT_PPM, text, {"backwards": backwards, "drift_ppm": drift})


def _thrown(loop: Loop) -> int:
    """How many readings were behind one that another process had made before."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    cores = cycle(sorted(os.sched_getaffinity(0)))
    core, other = next(cores), next(cores)
    process = context.Process(target=_catch, args=(theirs, other), daemon=True)
    before = os.sched_getaffinity(0)
    process.start()
    theirs.close()
    try:
        os.sched_setaffinity(0, {core})
        backwards = 0
        for _ in range(EXCHANGES):
            sent = loop.now()
            mine.send(sent)
            answered = mine.recv()
            backwards += (answered < sent) + (loop.now() < answered)
        mine.send(None)
    finally:
        os.sched_setaffinity(0, before)
        mine.close()
        process.join(5)
        process.kill()
    return backwards


def _catch(pipe: Any, core: int) -> None:
    os.sched_setaffinity(0, {core})
    # Chosen and calibrated anew: what it inherited would agree by itself.
    loop = pick()
    loop.calibrate()
    while pipe.recv() is not None:
        pipe.send(loop.now())
