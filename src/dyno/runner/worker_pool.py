"""Where workers come from: forked, for each trial, from a clean process that has imported what all of them need.

One such process for each interpreter that engines run in, started when the first worker is wanted. Where processes
can't be handed over, which only Linux does, each worker is an interpreter of its own. No engine is imported here.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from signal import SIGKILL
from time import monotonic, sleep
from typing import Any, Protocol

import psutil

from dyno.host import interpreters
from dyno.host.process import adopt_orphans, environment

FORKS = sys.platform == "linux"
REPLY_BYTES = 64
POLL_SECONDS = 0.001
PATIENCE_SECONDS = 60.0
"""In which a nursery starts, with all that it imports, and forks a worker."""


class Process(Protocol):
    """A worker's: what `subprocess.Popen` and `WorkerProcess` have in common."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class WorkerProcess:
    """A child of this process that another one started. Its status is told as `subprocess.Popen` does."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status, or minus the signal that killed it; None while it runs."""
        return self._reaped(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """The same, once it has ended. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else monotonic() + timeout
        while (status := self._reaped(0 if deadline is None else os.WNOHANG)) is None:
            if deadline is not None and monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            sleep(POLL_SECONDS)
        return status

    def _reaped(self, how: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status


def end(process: Process) -> None:
    """Kills a worker and whatever it has left in its session, and waits for it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGKILL)
    if process.poll() is None:
        # It is not yet the first of a session, which it becomes when it runs.
        os.kill(process.pid, SIGKILL)
    process.wait()


class WorkerStartError(Exception):
    """No worker could be had; says why."""


class WorkerPool:
    """The process that the workers of one interpreter are forked from."""

    def __init__(self, executable: str, suite: str, output: Path) -> None:
        self._executable, self._suite, self._output = executable, suite, output
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def ready(self) -> None:
        """Started, if it is not there, or was killed or stopped by an engine."""
        if self._process is None or self._process.poll() is not None or _stopped(self._process.pid):
            self._start()

    def fork(self, home: Path, given: int, printed: int, results: int) -> Process:
        """A worker in `home` with these descriptors. Raises Unborn."""
        assert self._control is not None
        pid = 0
        with suppress(OSError):
            socket.send_fds(self._control, [os.fsencode(home)], [given, printed, results])
            pid = int(self._control.recv(REPLY_BYTES) or 0)
        if pid:
            return WorkerProcess(pid)
        self.close()
        told = list[str]()
        with suppress(OSError):
            told = self._output.read_text(errors="replace").strip().splitlines()
        raise WorkerStartError(f"{self._executable} could start no worker" + (f": {told[-1]}" if told else ""))

    def _start(self) -> None:
        self.close()
        adopt_orphans()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(PATIENCE_SECONDS)
        with theirs, self._output.open("wb") as printed:
            self._process = subprocess.Popen(
                [*_python(self._executable, "dyno.measure.forker"), *_told(theirs.fileno()), self._suite],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                cwd=self._output.parent,
                env=_environment(),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            end(self._process)
            self._process = None


class WorkerPools:
    """Those of a run, whose work directory is `home`; gone with the block."""

    def __init__(self, suite: str, home: Path, forks: bool = FORKS) -> None:
        self._suite, self._home, self._forks = suite, home, forks
        self._of: dict[str, WorkerPool] = {}

    def __enter__(self) -> WorkerPools:
        return self

    def __exit__(self, *error: object) -> None:
        self.renew()

    def renew(self) -> None:
        """Further workers come from other processes. Those of one share where everything lies in memory, which can
        make code some percent faster or slower (Mytkowicz et al., Producing Wrong Data Without Doing Anything
        Obviously Wrong, 2009): drawn anew for each block, it is a part of the spread.
        """
        for nursery in self._of.values():
            nursery.close()

    def ready(self, executable: str) -> None:
        """What a worker comes from is there: to be called where nobody takes it for something that a trial left."""
        if self._forks:
            if executable not in self._of:
                output = self._home / f"nursery-{len(self._of)}.output"
                self._of[executable] = WorkerPool(executable, self._suite, output)
            self._of[executable].ready()

    @contextmanager
    def worker(
        self,
        executable: str,
        home: Path,
        output: Path,
        key: bytes,
        job: Mapping[str, Any],
        born: Callable[[int], object] = int,
    ) -> Iterator[tuple[Process, int]]:
        """A worker in a session of its own, and the reading end of its pipe; nothing of it is left afterwards. `born`
        is given its process before that has its key and its job. Raises Unborn.
        """
        reading, writing = os.pipe()
        given, giving = os.pipe()
        try:
            with output.open("wb") as printed:
                bear = self._of[executable].fork if self._forks else partial(_spawn, executable)
                process = bear(home, given, printed.fileno(), writing)
        except BaseException:
            os.close(reading)
            os.close(giving)
            raise
        finally:
            os.close(writing)
            os.close(given)
        try:
            with suppress(BrokenPipeError), os.fdopen(giving, "wb") as told:
                born(process.pid)
                told.write(f"{key.hex()}\n{json.dumps(job)}\n".encode())
            yield process, reading
        finally:
            os.close(reading)
            # Also whatever the engine started and left behind in this session.
            end(process)


def _stopped(pid: int) -> bool:
    with suppress(psutil.Error):
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    return False


def _spawn(executable: str, home: Path, given: int, printed: int, results: int) -> Process:
    return subprocess.Popen(
        [*_python(executable, "dyno.measure.worker"), *_told(results)],
        stdin=given,
        stdout=printed,
        stderr=printed,
        cwd=home,
        env=_environment(),
        pass_fds=[results],
        start_new_session=True,
    )


def _python(executable: str, module: str) -> list[str]:
    return interpreters.words(executable, module, "-X", "faulthandler")


def _told(descriptor: int) -> list[str]:
    return [str(descriptor), str(os.getpid())]


def _environment() -> dict[str, str]:
    """Of a worker: the same order of sets in each trial."""
    return {**environment(), "PYTHONHASHSEED": "0"}
