"""Cores that are kept awake: that they are, and whose time it takes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from dyno.host.keep_awake import CannotKeepAwake, cores, kept
from dyno.host.procfs import ROOT, Ticks
from dyno.host.usage import cpu_ns
from dyno.selftest import Verdict

SECONDS = 0.5
IDLE_PERCENT, TAKEN_PERCENT = 10.0, 10.0
"""Told by the kernel's ticks, of which so few seconds have few."""
BURN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
end = time.process_time() + float(sys.argv[2])
while time.process_time() < end:
    pass
"""


def awake(work: Path) -> Verdict:
    """How long a core is idle that is kept awake, and what is taken from a process that computes on it, in a session
    of its own as every trial's is."""
    try:
        with kept() as keeper:
            pids = keeper.pids()
            idle, taken = _idle_percent(), _taken_percent(pids, cores()[0])
            ended = keeper.ended
    except CannotKeepAwake as error:
        return Verdict(None, f"the cores can't be kept awake: {error}")
    left = [pid for pid in pids if psutil.pid_exists(pid)]
    text = f"idle for {idle:.1f} % of the time; {taken:.1f} % of a core's time is taken from who computes on it"
    text += "; a process has ended by itself" if ended else ""
    text += f"; {len(left)} of {len(pids)} processes are left behind" if left else ""
    passed = idle <= IDLE_PERCENT and taken <= TAKEN_PERCENT and not ended and not left
    return Verdict(passed, text, {"idle_percent": round(idle, 2), "taken_percent": round(taken, 2)})


def _idle_percent() -> float:
    """Of the time of the core that is idle longest."""
    before = [Ticks.read(ROOT, core) for core in cores()]
    time.sleep(SECONDS)
    after = [Ticks.read(ROOT, core) for core in cores()]
    found = [_idle(was, now) for was, now in zip(before, after, strict=True) if was is not None and now is not None]
    if not found:
        raise CannotKeepAwake("the kernel does not tell how long a core is idle")
    return max(found) * 100


def _idle(before: Ticks, after: Ticks) -> float:
    used, total = after.busy + after.steal - before.busy - before.steal, after.total - before.total
    return max(0.0, 1 - used / total) if total > 0 else 0.0


def _may_be_on(pid: int, core: int) -> bool:
    """False of a process that has ended."""
    with suppress(ProcessLookupError):
        return core in os.sched_getaffinity(pid)
    return False


def _taken_percent(pids: Sequence[int], core: int) -> float:
    """Of the time of a core, where a process computes for so many seconds: by those of `pids` that may be on it."""
    there = [pid for pid in pids if _may_be_on(pid, core)]
    words = [sys.executable, "-S", "-c", BURN, str(core), str(SECONDS)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = cpu_ns(there)
        process.wait()
        taken = cpu_ns(there) - before
    return taken / (taken + SECONDS * 1e9) * 100
