"""Keeps cores awake: a process of idle priority on each core computes whenever nothing else does.

An idle core goes to sleep, and waking it takes time, which `wakeups` measures.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter_ns as now

import psutil

from dyno.host.process import die_with_parent, environment
from dyno.host.procfs import ROOT, quota_cores, read_text, to_int

MODULE = "dyno.host.keep_awake"
READY = "awake"
ENDING_SECONDS = 10.0
_AUTOGROUP = Path("/proc/self/autogroup")
_TRIES = 50
_PATIENCE_SECONDS = 0.1


class CannotKeepAwake(Exception):
    """Cores can't be kept awake, or no longer are. The message says why in one line."""


def cores() -> list[int]:
    """Returns the cores that this process may run on."""
    return sorted(os.sched_getaffinity(0))


def check(root: Path = ROOT) -> None:
    """Raises CannotKeepAwake if cores can't be kept awake, or if that would distort measurements."""
    quota, count = quota_cores(root), len(cores())
    if quota is not None and quota < count:
        raise CannotKeepAwake(
            f"a control group allows the CPU time of {quota:g} of {count} cores, and keeping them awake would use it"
            " up; lift the limit, or pin the container to whole cores (docker run --cpuset-cpus)"
        )


class Keeper:
    """The processes that keep the cores awake, one for each core, and their parent."""

    def __init__(self, process: subprocess.Popen[str], wanted: int) -> None:
        self._process, self._wanted = process, wanted

    def pids(self) -> list[int]:
        """Returns the ids of the processes that still keep a core awake."""
        with suppress(psutil.Error):
            children = psutil.Process(self._process.pid).children()
            return [child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE]
        return []

    @property
    def ended(self) -> bool:
        """Whether one of the processes has ended."""
        return len(self.pids()) < self._wanted

    def check(self) -> None:
        """Raises CannotKeepAwake if one of the processes has ended."""
        if self.ended:
            raise CannotKeepAwake(
                "a process that kept a core awake was killed; earlier trials count, and --resume continues the run"
            )


@contextmanager
def keep_cores_awake() -> Iterator[Keeper]:
    """Keeps all cores of this process awake in the block.

    If this process is killed, the processes that keep them awake end too. Raises CannotKeepAwake.
    """
    check()
    own = cores()
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, "keep", str(os.getpid()), *map(str, own)],
        # Use a directory without modules that the child could import by accident.
        cwd="/",
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        with process.stdout:
            line = process.stdout.readline().strip()
        if line != READY:
            raise CannotKeepAwake(line or f"{sys.executable} could not be started for it")
        yield Keeper(process, len(own))
    finally:
        process.terminate()
        try:
            process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def spinner(core: int) -> int:
    """Starts a child that keeps a core awake until this process ends. Returns its pid. Raises OSError."""
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            die_with_parent(parent)
            with suppress(ImportError):
                # The native loop leaves most of the core's units to its other hardware thread.
                from dyno._native import spin

                spin()
            while True:
                pass
        finally:
            os._exit(1)
    try:
        os.sched_setaffinity(pid, {core})
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        end([pid])
        raise
    return pid


def end(pids: Iterable[int]) -> None:
    """Kills children of this process, and waits for them."""
    for pid in pids:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _step_back() -> None:
    """Gives this session, which contains only these processes, the least weight.

    If the kernel weighs sessions against each other (autogroup, see sched(7)), idle priority counts only within a
    session. Raises OSError.
    """
    for left in reversed(range(_TRIES)):
        try:
            _AUTOGROUP.write_text("19")
        except FileNotFoundError:
            return
        except BlockingIOError:
            # The kernel allows only one such change in a tenth of a second, for all sessions together.
            if not left:
                raise
            time.sleep(_PATIENCE_SECONDS)
        else:
            return


def main(words: Sequence[str]) -> None:
    """Runs the parent of the processes until its own parent dies, it is terminated, or one of the processes ends."""
    parent, *own = map(int, words)
    die_with_parent(parent)
    pids: list[int] = []
    try:
        _step_back()
        pids += map(spinner, own)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        print(READY, flush=True)
        os.wait()
    except OSError as error:
        print(f"a process of idle priority is not allowed here ({error.strerror})", flush=True)
    finally:
        end(pids)


# -- the cost of waking a sleeping core ---------------------------------------------------------------------
#
# Two processes exchange a byte, first while cores may sleep and then while they are kept awake. The cost is the
# difference. In a virtual machine only the hypervisor can wake a core, which takes tens of microseconds. `dyno.stats`
# explains what the cost means for a measurement.

PATIENCE_SECONDS = 20.0
_TURNS = 2
_LEAST = 20
"""Minimum number of round trips for a median. The first round trips, as many again, are dropped."""
APART, FREE = "apart", "free"
_WORK_NS = 30_000
"""Computing time before each send, like that of a server and its client. If a core would sleep for a shorter time
than that, a hypervisor keeps it awake, which would hide the cost that servers meet."""


def wakeups(seconds: float) -> dict[str, object] | None:
    """Measures the cost of a wake-up by round trips for about `seconds`, plus the start of a process.

    cost_ns   cost of one wake-up: half the difference between the medians of round trips with sleeping and with awake
              cores; the larger one of both placements. None if cores can't be kept awake
    apart     round trips between two cores, with a process pinned to each, without the computing time: p50_ns and
              p99_ns, and with both cores kept awake awake_p50_ns and awake_p99_ns. None with a single core
    free      the same, but the kernel places both processes on either of these cores

    Returns None if it can't be measured.
    """
    words = [sys.executable, "-m", MODULE, "wakeups", str(os.getpid()), str(seconds)]
    with suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(
            words, cwd="/", env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS
        )
        figures: dict[str, object] = json.loads(done.stdout)
        return figures
    return None


def _measure(seconds: float) -> dict[str, object]:
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
    pids = list[int]()
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
    figures: dict[str, int | None] = {}
    for state, spans in (("", sorted(asleep)), ("awake_", sorted(awake))):
        for name, share in (("p50_ns", 0.5), ("p99_ns", 0.99)):
            if len(spans) >= _LEAST:
                figures[state + name] = spans[int(len(spans) * share)]
            else:
                figures[state + name] = None
    return figures


if __name__ == "__main__":
    if sys.argv[1] == "keep":
        main(sys.argv[2:])
    else:
        die_with_parent(int(sys.argv[2]))
        print(json.dumps(_measure(float(sys.argv[3]))))
