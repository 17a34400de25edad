"""What it costs to wake up a core that has been put to sleep: two processes send a byte to and fro, while cores may
sleep and while they are kept awake. The difference is what waking them up took.

In a virtual machine only the hypervisor can wake up a core, which takes tens of microseconds. Linux only. What that
means for a measurement is said in `dyno.stats`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter_ns as now
from typing import Any

from dyno.host.filesystem import ROOT
from dyno.host.keep_awake import cores, ended, spinner
from dyno.host.kernel import quota_cores
from dyno.host.process import die_with_parent, environment
from dyno.host.procfs import read_text, to_int

MODULE = "dyno.host.wakeups"
PATIENCE_SECONDS = 20.0
_TURNS = 2
_LEAST = 20
"""Round trips without which there is no median."""
APART, FREE = "apart", "free"
_WORK_NS = 30_000
"""For which each computes before it sends, as a server and its client do. A hypervisor lets a core that would sleep
for less time than that wait awake: what is timed would not be what servers meet."""


def wakeups(seconds: float) -> dict[str, Any] | None:
    """What a wake-up costs here, from round trips for about `seconds` in all, a process to be started for them apart.

    cost_ns   of one wake-up: half of what a round trip takes longer where cores sleep, by medians; of both placements
              the larger. None where cores can't be kept awake for comparison
    apart     round trips between two cores, a process pinned to each: p50_ns and p99_ns, and with both cores kept
              awake awake_p50_ns and awake_p99_ns, without what either computes. None where there is one core
    free      the same where the kernel places both processes, on either of these cores

    None where it can't be measured.
    """
    if sys.platform != "linux":
        return None
    words = [sys.executable, "-m", MODULE, str(os.getpid()), str(seconds)]
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(
            words, cwd="/", env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found
    return None


def _measured(seconds: float) -> dict[str, Any]:
    pair = _pair(cores())
    placements = {FREE: (set(pair), set(pair))}
    if len(pair) > 1:
        placements[APART] = ({pair[0]}, {pair[1]})
    quota = quota_cores(ROOT)
    may_stay = (False, True) if quota is None or quota >= len(pair) else (False,)
    pieces = [(awake, where) for awake in may_stay for where in placements]
    spans: dict[tuple[bool, str], list[int]] = {piece: [] for piece in pieces}
    # In turns, so that what else the machine does hits both alike.
    for _ in range(_TURNS):
        for awake in may_stay:
            with _kept(pair if awake else ()) as possible:
                for where in placements if possible else ():
                    spans[awake, where] += _round_trips(*placements[where], seconds / _TURNS / len(pieces))
    found = {where: _figures(spans[False, where], spans.get((True, where), [])) for where in placements}
    known = [
        (times["p50_ns"] - times["awake_p50_ns"]) // 2
        for times in found.values()
        if times["p50_ns"] is not None and times["awake_p50_ns"] is not None
    ]
    return {"cost_ns": max(0, *known) if known else None, APART: found.get(APART), FREE: found[FREE]}


def _pair(there: Sequence[int]) -> list[int]:
    """Two of these cores, or the one that there is; no two hardware threads of one, where others are to be had."""
    first, *rest = there
    siblings = read_text(ROOT / f"sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list") or ""
    near = {to_int(word) for span in siblings.split(",") for word in span.split("-")}
    return [first, *([core for core in rest if core not in near] or rest)[:1]]


@contextmanager
def _kept(pair: Sequence[int]) -> Iterator[bool]:
    """These cores are kept awake in the block, where that is possible."""
    pids: list[int] = []
    try:
        with suppress(OSError):
            pids += map(spinner, pair)
        yield len(pids) == len(pair)
    finally:
        ended(pids)


def _round_trips(mine: set[int], theirs: set[int], seconds: float) -> list[int]:
    """How long round trips took, in ns, without the first few."""
    here, there = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            die_with_parent(parent)
            here.close()
            os.sched_setaffinity(0, theirs)
            while told := os.read(there.fileno(), 1):
                _compute()
                os.write(there.fileno(), told)
        finally:
            os._exit(0)
    spans: list[int] = []
    before, end = os.sched_getaffinity(0), now() + int(seconds * 1e9)
    with here, there:
        os.sched_setaffinity(0, mine)
        while (begin := _compute()) < end:
            os.write(here.fileno(), b".")
            os.read(here.fileno(), 1)
            spans.append(max(now() - begin - _WORK_NS, 0))
        os.sched_setaffinity(0, before)
    ended([pid])
    return spans[_LEAST:]


def _compute() -> int:
    """Keeps its core busy for a while; returns when it was over."""
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
    """Tells it as JSON."""
    die_with_parent(int(words[0]))
    print(json.dumps(_measured(float(words[1]))))


if __name__ == "__main__":
    main(sys.argv[1:])
