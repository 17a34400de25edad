"""Keeps cores awake: on each of them a process of idle priority, which computes whenever nobody else wants to.

A core with nothing to do is put to sleep, and waking it takes time: see `dyno.host.wakeups`. Linux only. When it is
done, and what it means for a figure, may not be said here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from dyno.host.filesystem import ROOT
from dyno.host.kernel import quota_cores
from dyno.host.process import die_with_parent, environment

MODULE = "dyno.host.keep_awake"
READY = "awake"
ENDING_SECONDS = 10.0
_AUTOGROUP, _TRIES, _PATIENCE_SECONDS = Path("/proc/self/autogroup"), 50, 0.1


class CannotKeepAwake(Exception):
    """Cores can't be kept awake, or no longer were; says why in one line."""


def cores() -> list[int]:
    """Those that this process may run on. Linux only."""
    return sorted(os.sched_getaffinity(0))


def check(root: Path = ROOT) -> None:
    """Raises Asleep where it can't be done, or would harm what is measured."""
    if sys.platform != "linux":
        raise CannotKeepAwake("only Linux has processes of idle priority")
    quota, there = quota_cores(root), len(cores())
    if quota is not None and quota < there:
        raise CannotKeepAwake(
            f"a control group allows the CPU time of {quota:g} of {there} cores, and keeping them awake would use it"
            " up; lift the limit, or pin the container to whole cores (docker run --cpuset-cpus)"
        )


class Keeper:
    """The processes that keep the cores awake, one for each, and the one that they end with."""

    def __init__(self, process: subprocess.Popen[str], wanted: int) -> None:
        self._process, self._wanted = process, wanted

    def pids(self) -> list[int]:
        """Of the processes that keep a core awake each, and still do."""
        with suppress(psutil.Error):
            children = psutil.Process(self._process.pid).children()
            return [child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE]
        return []

    @property
    def ended(self) -> bool:
        """Whether one of them is no more."""
        return len(self.pids()) < self._wanted

    def check(self) -> None:
        """Raises Asleep where one of them is no more."""
        if self.ended:
            raise CannotKeepAwake(
                "somebody has ended a process that did so; the trials before it count, and --resume goes on"
            )

    def end(self) -> None:
        """Returns when all are gone."""
        self._process.terminate()
        try:
            self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def kept() -> Iterator[Keeper]:
    """All cores of this process are kept awake in the block, however it is left: also by SIGKILL. Raises Asleep."""
    check()
    keeper = _started()
    try:
        yield keeper
    finally:
        keeper.end()


def _started() -> Keeper:
    wanted = cores()
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, str(os.getpid()), *map(str, wanted)],
        # Where nothing lies that could be imported by accident.
        cwd="/",
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    keeper = Keeper(process, len(wanted))
    try:
        assert process.stdout is not None
        with process.stdout:
            told = process.stdout.readline().strip()
        if told != READY:
            raise CannotKeepAwake(told or f"{sys.executable} could not be started for it")
    except BaseException:
        keeper.end()
        raise
    return keeper


def spinner(core: int) -> int:
    """A child of this process that keeps the core awake; its process. It ends with this one. Raises OSError."""
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            die_with_parent(parent)
            _spin()
        finally:
            os._exit(1)
    try:
        os.sched_setaffinity(pid, {core})
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        ended([pid])
        raise
    return pid


def _spin() -> None:
    """Never returns. The native module's loop leaves most of a core's units to its other hardware thread."""
    try:
        import dyno._native
    except ImportError:
        while True:
            pass
    dyno._native.spin()


def ended(pids: Iterable[int]) -> None:
    """Kills these children of this process, and waits for them."""
    for pid in pids:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _step_back() -> None:
    """Where the kernel weighs sessions against each other (autogroup, see sched(7)), idle priority is one within a
    session: this one, which has nothing else in it, takes the least weight. Raises OSError.
    """
    for left in reversed(range(_TRIES)):
        try:
            _AUTOGROUP.write_text("19")
        except FileNotFoundError:
            return
        except BlockingIOError:
            # One change in a tenth of a second is let pass, whoever asks.
            if not left:
                raise
            time.sleep(_PATIENCE_SECONDS)
        else:
            return


def main(words: Sequence[str]) -> None:
    """What the processes end with: has them, until its parent dies, it is asked to end, or one of them has ended."""
    parent, *wanted = map(int, words)
    die_with_parent(parent)
    pids: list[int] = []
    try:
        _step_back()
        pids += map(spinner, wanted)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        print(READY, flush=True)
        os.wait()
    except OSError as error:
        print(f"a process of idle priority is not allowed here ({error.strerror})", flush=True)
    finally:
        ended(pids)


if __name__ == "__main__":
    main(sys.argv[1:])
