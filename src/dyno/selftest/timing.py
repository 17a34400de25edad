"""Checks of the clock, and of recorded latencies against those that the operations measure themselves."""

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
from dyno.selftest import CheckResult

OPERATIONS = 5_000
MEDIAN_NS, SPREAD = 60_000, 0.8
"""Parameters of a log-normal distribution. Its p999 is twelve times the median."""
NEAR_PERCENT = 1.0
STRAY = 2
"""Ranks by which a recorded percentile may be off: a few operations lose their core between their own last reading of
the clock and that of the loop.
"""
EXCHANGES = 5_000
DRIFT_PPM = 200.0
SECONDS = 1.0


def latency(work: Path) -> CheckResult:
    """Measures operations whose durations have a known distribution, and which measure themselves by the kernel's
    clock.
    """
    worst, texts = 0.0, []
    for name in ("native", "python") if native() else ("python",):
        own: list[int] = []
        drawn = np.random.default_rng(1).lognormal(math.log(MEDIAN_NS), SPREAD, OPERATIONS).astype(int).tolist()
        slices = [Operations(lambda _, own=own: (_spinner(own),), drawn, len)]  # type: ignore[misc]
        tally = measure(lambda _, slices=slices: iter(slices), Pace(loop=name), lambda: None)  # type: ignore[misc]
        recorded = percentiles([tally.latency.encode()])
        errors = {
            at: _error_percent(ns, own, PERCENTILES[at])
            for at in ("p50", "p99", "p999")
            if (ns := recorded[at]) is not None
        }
        if not errors or not own:
            return CheckResult(False, f"{name} loop: no latencies were recorded")
        worst = max(worst, *errors.values())
        texts.append(f"{name} loop: " + ", ".join(f"{at} off by {error:.2f} %" for at, error in errors.items()))
    return CheckResult(worst <= NEAR_PERCENT, "; ".join(texts), {"worst_percent": worst})


def _spinner(own: list[int]) -> Any:
    """Returns an operation that spins for a given time, and appends its measured duration to `own`."""
    clock, note = time.perf_counter_ns, own.append

    def spin(ns: int) -> None:
        start = now = clock()
        while now - start < ns:
            now = clock()
        note(now - start)

    return spin


def _error_percent(recorded: int, own: Sequence[int], percentile: float) -> float:
    """Returns the difference between a recorded percentile and that of the operations' own durations, in percent."""
    # Compare with the nearest of several ranks, since neighbours in the tail differ by more than NEAR_PERCENT.
    true, rank = sorted(own), max(int(percentile / 100 * len(own) + 0.5) - 1, 0)
    nearest = min(max(recorded, true[max(rank - STRAY, 0)]), true[min(rank + STRAY, len(own) - 1)])
    return abs(recorded - nearest) / nearest * 100


def clock(work: Path) -> CheckResult:
    """Exchanges readings of the clock between two processes, on different cores if possible."""
    loop = pick()
    backwards = _count_backwards(loop)
    begin, own = time.monotonic_ns(), loop.now()
    time.sleep(SECONDS)
    loop.calibrate()
    passed, measured = time.monotonic_ns() - begin, loop.now() - own
    drift = abs(measured - passed) / passed * 1e6
    text = f"{loop.CLOCK}: {backwards} of {2 * EXCHANGES:,} readings ran backwards between two processes;"
    text += f" it differs from the kernel's clock by {drift:.0f} parts in a million"
    return CheckResult(not backwards and drift <= DRIFT_PPM, text, {"backwards": backwards, "drift_ppm": drift})


def _count_backwards(loop: Loop) -> int:
    """Returns how many readings were earlier than a previous reading of the other process."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    cores = cycle(sorted(os.sched_getaffinity(0)))
    core, other = next(cores), next(cores)
    process = context.Process(target=_answer, args=(theirs, other), daemon=True)
    before = os.sched_getaffinity(0)
    process.start()
    theirs.close()
    try:
        os.sched_setaffinity(0, {core})
        backwards = 0
        for _ in range(EXCHANGES):
            before_ns = loop.now()
            mine.send(before_ns)
            other_ns = mine.recv()
            backwards += (other_ns < before_ns) + (loop.now() < other_ns)
        mine.send(None)
    finally:
        os.sched_setaffinity(0, before)
        mine.close()
        process.join(5)
        process.kill()
    return backwards


def _answer(pipe: Any, core: int) -> None:
    os.sched_setaffinity(0, {core})
    # Calibrate again: with an inherited calibration, both clocks would agree trivially.
    loop = pick()
    loop.calibrate()
    while pipe.recv() is not None:
        pipe.send(loop.now())
