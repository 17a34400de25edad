"""Keeps cores awake: a process of idle priority on each core computes whenever nothing else does.

An idle core goes to sleep, and waking it takes time (see `dyno.host.wakeups`). Linux only.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from dyno.host.process import die_with_parent, environment
from dyno.host.procfs import ROOT, quota_cores

MODULE = "dyno.host.keep_awake"
READY = "awake"
ENDING_SECONDS = 10.0
_AUTOGROUP, _TRIES, _PATIENCE_SECONDS = Path("/proc/self/autogroup"), 50, 0.1


class CannotKeepAwake(Exception):
    """Cores can't be kept awake, or no longer are. The message says why in one line."""


def cores() -> list[int]:
    """Returns the cores that this process may run on. Linux only."""
    return sorted(os.sched_getaffinity(0))


def check(root: Path = ROOT) -> None:
    """Raises CannotKeepAwake if cores can't be kept awake, or if that would distort measurements."""
    if sys.platform != "linux":
        raise CannotKeepAwake("only Linux has processes of idle priority")
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

    def end(self) -> None:
        """Ends all processes, and waits for them."""
        self._process.terminate()
        try:
            self._process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def kept() -> Iterator[Keeper]:
    """Keeps all cores of this process awake in the block.

    If this process is killed, the processes that keep them awake end too. Raises CannotKeepAwake.
    """
    check()
    own = cores()
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, str(os.getpid()), *map(str, own)],
        # Use a directory without modules that the child could import by accident.
        cwd="/",
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    keeper = Keeper(process, len(own))
    try:
        assert process.stdout is not None
        with process.stdout:
            line = process.stdout.readline().strip()
        if line != READY:
            raise CannotKeepAwake(line or f"{sys.executable} could not be started for it")
        yield keeper
    finally:
        keeper.end()


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


if __name__ == "__main__":
    main(sys.argv[1:])
