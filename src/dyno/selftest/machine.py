"""Checks of this machine: the clock, recorded latencies, cold reads, and cores that are kept awake."""

from __future__ import annotations

import math
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil

from dyno.contracts.histogram import PERCENTILES, curve
from dyno.contracts.pace import Pace
from dyno.contracts.rank import rank
from dyno.contracts.suite import Operations
from dyno.host import pagecache
from dyno.host.filesystem import filesystem
from dyno.host.keep_awake import CannotKeepAwake, cores, keep_cores_awake
from dyno.host.procfs import ROOT, Ticks
from dyno.host.usage import cpu_ns, measure_own
from dyno.measure.driver import measure
from dyno.measure.loop import Loop, native, pick
from dyno.selftest import CheckResult

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

BYTES = 64 << 20
PIECE_BYTES = 1 << 20
EVICTED_PERCENT, CACHED_PERCENT = 1.0, 99.0
COLD_SHARE, CACHED_SHARE = 0.9, 0.01
SECONDS = 0.5
IDLE_PERCENT, TAKEN_PERCENT = 10.0, 10.0
"""Coarse limits, since the kernel counts in ticks and SECONDS has few of them."""
BURN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
end = time.process_time() + float(sys.argv[2])
while time.process_time() < end:
    pass
"""


def cold(work: Path) -> CheckResult:
    """Evicts a file and reads it twice. Only the first time, the data must come from the device."""
    if filesystem(work)["ram_backed"]:
        return CheckResult(None, "the work directory is in memory, where nothing can be cold")
    file = work / "cold"
    try:
        with file.open("wb") as writing:
            for _ in range(BYTES // PIECE_BYTES):
                writing.write(os.urandom(PIECE_BYTES))
        pagecache.evict([file], drop=None)
        evicted, first = pagecache.residency([file]).percent, _read_from_device(file)
        cached, second = pagecache.residency([file]).percent, _read_from_device(file)
    finally:
        file.unlink(missing_ok=True)
    if evicted is None or cached is None or first is None or second is None:
        return CheckResult(
            None, "this kernel doesn't report what is in the page cache, or what is read from a device"
        )
    text = f"evicted: {evicted:.1f} % resident, {first * 100:.0f} % read from the device;"
    text += f" cached: {cached:.1f} % resident, {second * 100:.0f} % read from the device"
    passed = evicted <= EVICTED_PERCENT and cached >= CACHED_PERCENT
    passed = passed and first >= COLD_SHARE and second <= CACHED_SHARE
    return CheckResult(passed, text, {"evicted_percent": evicted, "cached_percent": cached})


def _read_from_device(file: Path) -> float | None:
    """Reads a file. Returns the share of its bytes that came from the device."""
    before = measure_own().read_bytes
    with file.open("rb", buffering=0) as reading:
        while reading.read(PIECE_BYTES):
            pass
    after = measure_own().read_bytes
    if before is None or after is None:
        return None
    return (after - before) / BYTES


def check_awake(work: Path) -> CheckResult:
    """Measures how long a core idles while it is kept awake, and how much time that takes from a process on the core.
    The process runs in its own session, like that of every trial."""
    try:
        with keep_cores_awake() as keeper:
            pids = keeper.pids()
            idle, taken = _idle_percent(), _taken_percent(pids, cores()[0])
            ended = keeper.ended
    except CannotKeepAwake as error:
        return CheckResult(None, f"the cores can't be kept awake: {error}")
    left = [pid for pid in pids if psutil.pid_exists(pid)]
    text = f"idle for {idle:.1f} % of the time; {taken:.1f} % of a core's time is taken from a process that computes"
    text += "; a process that kept a core awake ended by itself" if ended else ""
    text += f"; {len(left)} of {len(pids)} processes are left behind" if left else ""
    passed = idle <= IDLE_PERCENT and taken <= TAKEN_PERCENT and not ended and not left
    return CheckResult(passed, text, {"idle_percent": round(idle, 2), "taken_percent": round(taken, 2)})


def _idle_percent() -> float:
    """Returns the idle time of the core that idles longest, in percent."""
    before = [Ticks.read(ROOT, core) for core in cores()]
    time.sleep(SECONDS)
    after = [Ticks.read(ROOT, core) for core in cores()]
    shares = []
    for old, new in zip(before, after, strict=True):
        if old is not None and new is not None:
            used, total = new.busy + new.steal - old.busy - old.steal, new.total - old.total
            shares.append(max(0.0, 1 - used / total) if total > 0 else 0.0)
    if not shares:
        raise CannotKeepAwake("this kernel doesn't report how long a core is idle")
    return max(shares) * 100


def _taken_percent(pids: Sequence[int], core: int) -> float:
    """Returns the share of a core's time that `pids` take from a process that computes on the core for SECONDS."""
    on_core = []
    for pid in pids:
        with suppress(ProcessLookupError):
            if core in os.sched_getaffinity(pid):
                on_core.append(pid)
    words = [sys.executable, "-S", "-c", BURN, str(core), str(SECONDS)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = cpu_ns(on_core)
        process.wait()
        taken = cpu_ns(on_core) - before
    return taken / (taken + SECONDS * 1e9) * 100


OPERATIONS, CHECKED = 5_000, ("p50", "p99", "p999")
MEDIAN_NS, SPREAD = 60_000, 0.8
"""Parameters of a log-normal distribution. Its p999 is twelve times the median."""
NEAR_PERCENT = 1.0
STRAY = 2
"""Ranks by which a recorded percentile may be off: a few operations lose their core between their own last reading of
the clock and that of the loop."""
EXCHANGES = 5_000
DRIFT_PPM = 200.0
DRIFT_SECONDS = 1.0


def latency(work: Path) -> CheckResult:
    """Measures operations of a known distribution, which also measure themselves by the kernel's clock."""
    worst, texts = 0.0, []
    for name in ("native", "python") if native() else ("python",):
        own: list[int] = []
        drawn = np.random.default_rng(1).lognormal(math.log(MEDIAN_NS), SPREAD, OPERATIONS).astype(int).tolist()
        slices = [Operations(lambda _, own=own: (_spinner(own),), drawn, len)]  # type: ignore[misc]
        tally = measure(lambda _, slices=slices: iter(slices), Pace(loop=name), lambda: None)  # type: ignore[misc]
        recorded = curve([tally.latency.encode()], [PERCENTILES[at] for at in CHECKED])
        errors = {
            at: _error_percent(ns, own, percentile) for at, (percentile, ns) in zip(CHECKED, recorded, strict=False)
        }
        if not errors or not own:
            return CheckResult(False, f"{name} loop: no latencies were recorded")
        worst = max(worst, *errors.values())
        texts.append(f"{name} loop: " + ", ".join(f"{at} off by {error:.2f} %" for at, error in errors.items()))
    return CheckResult(worst <= NEAR_PERCENT, "; ".join(texts), {"worst_percent": worst})


def _spinner(own: list[int]) -> Callable[[int], None]:
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
    true = sorted(own)
    at = rank(percentile, len(own)) - 1
    nearest = min(max(recorded, true[max(at - STRAY, 0)]), true[min(at + STRAY, len(own) - 1)])
    return abs(recorded - nearest) / nearest * 100


def clock(work: Path) -> CheckResult:
    """Exchanges readings of the clock between two processes, on different cores if possible."""
    loop = pick()
    backwards = _count_backwards(loop)
    begin, own = time.monotonic_ns(), loop.now()
    time.sleep(DRIFT_SECONDS)
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


def _answer(pipe: Connection, core: int) -> None:
    os.sched_setaffinity(0, {core})
    # Calibrate again: with an inherited calibration, both clocks would agree trivially.
    loop = pick()
    loop.calibrate()
    while pipe.recv() is not None:
        pipe.send(loop.now())
