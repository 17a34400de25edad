"""Cost of waking a sleeping core: two processes exchange a byte, first while cores may sleep and then while they are
kept awake. The cost is the difference.

In a virtual machine only the hypervisor can wake a core, which takes tens of microseconds. Linux only. `dyno.stats`
explains what the cost means for a measurement.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter_ns as now
from typing import Any

from dyno.host.keep_awake import cores, end, spinner
from dyno.host.process import die_with_parent, environment
from dyno.host.procfs import ROOT, quota_cores, read_text, to_int

MODULE = "dyno.host.wakeups"
PATIENCE_SECONDS = 20.0
_TURNS = 2
_LEAST = 20
"""Minimum number of round trips for a median. The first round trips, as many again, are dropped."""
APART, FREE = "apart", "free"
_WORK_NS = 30_000
"""Computing time before each send, like that of a server and its client. If a core would sleep for a shorter time
than that, a hypervisor keeps it awake, which would hide the cost that servers meet.
"""


def wakeups(seconds: float) -> dict[str, Any] | None:
    """Measures the cost of a wake-up by round trips for about `seconds`, plus the start of a process.

    cost_ns   cost of one wake-up: half the difference between the medians of round trips with sleeping and with awake
              cores; the larger one of both placements. None if cores can't be kept awake
    apart     round trips between two cores, with a process pinned to each, without the computing time: p50_ns and
              p99_ns, and with both cores kept awake awake_p50_ns and awake_p99_ns. None with a single core
    free      the same, but the kernel places both processes on either of these cores

    Returns None if it can't be measured.
    """
    if sys.platform != "linux":
        return None
    words = [sys.executable, "-m", MODULE, str(os.getpid()), str(seconds)]
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(
            words, cwd="/", env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS
        )
        figures: dict[str, Any] = json.loads(done.stdout)
        return figures
    return None


def _measure(seconds: float) -> dict[str, Any]:
    pair = _pair(cores())
    placements = {FREE: (set(pair), set(pair))}
    if len(pair) > 1:
        placements[APART] = ({pair[0]}, {pair[1]})
    quota = quota_cores(ROOT)
    states = (False, True) if quota is None or quota >= len(pair) else (False,)
    pieces = [(awake, where) for awake in states for where in placements]
    spans: dict[tuple[bool, str], list[int]] = {piece: [] for piece in pieces}
    # Take turns, so that other load of the machine affects both alike.
    for _ in range(_TURNS):
        for awake in states:
            with _kept_awake(pair if awake else ()) as possible:
                for where in placements if possible else ():
                    spans[awake, where] += _round_trips(*placements[where], seconds / _TURNS / len(pieces))
    figures = {where: _figures(spans[False, where], spans.get((True, where), [])) for where in placements}
    known = [
        (times["p50_ns"] - times["awake_p50_ns"]) // 2
        for times in figures.values()
        if times["p50_ns"] is not None and times["awake_p50_ns"] is not None
    ]
    return {"cost_ns": max(0, *known) if known else None, APART: figures.get(APART), FREE: figures[FREE]}


def _pair(cores: Sequence[int]) -> list[int]:
    """Returns two of the cores, if possible not two hardware threads of one core; or the only core."""
    first, *rest = cores
    siblings = read_text(ROOT / f"sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list") or ""
    near = {to_int(word) for span in siblings.split(",") for word in span.split("-")}
    return [first, *([core for core in rest if core not in near] or rest)[:1]]


@contextmanager
def _kept_awake(pair: Sequence[int]) -> Iterator[bool]:
    """Keeps cores awake in the block. Yields False if that is impossible."""
    pids: list[int] = []
    try:
        with suppress(OSError):
            pids += map(spinner, pair)
        yield len(pids) == len(pair)
    finally:
        end(pids)


def _round_trips(mine: set[int], theirs: set[int], seconds: float) -> list[int]:
    """Returns the durations of round trips in ns, without the computing time and without the first few."""
    here, there = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            die_with_parent(parent)
            here.close()
            os.sched_setaffinity(0, theirs)
            while byte := os.read(there.fileno(), 1):
                _compute()
                os.write(there.fileno(), byte)
        finally:
            os._exit(0)
    spans: list[int] = []
    before, deadline = os.sched_getaffinity(0), now() + int(seconds * 1e9)
    with here, there:
        os.sched_setaffinity(0, mine)
        while (begin := _compute()) < deadline:
            os.write(here.fileno(), b".")
            os.read(here.fileno(), 1)
            spans.append(max(now() - begin - _WORK_NS, 0))
        os.sched_setaffinity(0, before)
    end([pid])
    return spans[_LEAST:]


def _compute() -> int:
    """Computes for _WORK_NS. Returns the moment of its end."""
    end = now() + _WORK_NS
    while (moment := now()) < end:
        pass
    return moment


def _figures(asleep: Sequence[int], awake: Sequence[int]) -> dict[str, int | None]:
    return {
        "p50_ns": _quantile(asleep, 0.5),
        "p99_ns": _quantile(asleep, 0.99),
        "awake_p50_ns": _quantile(awake, 0.5),
        "awake_p99_ns": _quantile(awake, 0.99),
    }


def _quantile(spans: Sequence[int], share: float) -> int | None:
    if len(spans) < _LEAST:
        return None
    return sorted(spans)[min(int(len(spans) * share), len(spans) - 1)]


def main(words: Sequence[str]) -> None:
    die_with_parent(int(words[0]))
    print(json.dumps(_measure(float(words[1]))))


if __name__ == "__main__":
    main(sys.argv[1:])
