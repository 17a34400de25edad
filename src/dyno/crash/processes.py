"""Parent's side of the two child processes of child.py, which may die, hang, or leave processes behind."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from dyno.contracts.sanitize import sanitize
from dyno.crash.store import CRASH, HANG, CrashTarget, Judgement
from dyno.host import interpreters
from dyno.host.process import own_session
from dyno.servers import leftover_processes

COMMIT, JUDGE = "commit", "judge"
HANG_SECONDS = 120.0
"""Minimum time limit for a judgement: two recoveries of a store of less than a MiB, and one commit."""
HANG_TIMES = 20.0
"""Time limit for a store, as a multiple of the time for the slowest store so far. Allows for a busy machine."""
MOST_FILES = 256
"""Limit of open files after which the judging process is replaced. Ordinary users' processes may have 1,024."""


def words(target: CrashTarget, command: str, *arguments: str) -> list[str]:
    """Returns the command line of a child process. It uses the interpreter of the engine's trials."""
    python = str(target.spec.interpreter() or sys.executable)
    return [*interpreters.words(python, "dyno.crash.child"), command, *arguments]


class CrashProcess:
    """A child process in its own session, which writes lines to a pipe. Its standard output goes to a log file."""

    def __init__(self, target: CrashTarget, command: str, home: Path, *arguments: str) -> None:
        self._home, self._buffer, self._has_server = home, b"", target.spec.server is not None
        self._log = home.parent / f"{command}.log"
        self._lines, writing = os.pipe()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                words(target, command, *arguments, f"/dev/fd/{writing}"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                **own_session(),
            )
        os.close(writing)

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message as a line of JSON. If the process has ended, the next call of `line` returns None."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def line(self, seconds: float) -> str | None:
        """Returns the next line, or None if the process has ended. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._lines, select.POLLIN)
        while b"\n" not in self._buffer:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1e3):
                raise TimeoutError
            more = os.read(self._lines, 1 << 16)
            if not more:
                return None
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace")

    def rest(self) -> Iterator[str]:
        """Yields the lines that the process wrote before it was killed."""
        with suppress(TimeoutError):
            while (line := self.line(1.0)) is not None:
                yield line

    def kill(self) -> None:
        """Kills the engine's server (if any), then the process and its session."""
        if self._has_server:
            # A server that has just started isn't recorded yet. The kernel would kill it with its parent, but later,
            # so that the next process would still find it running.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGSTOP)
            leftover_processes.kill(leftover_processes.family(self._process.pid)[1:])
        leftover_processes.clear(self._home)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> str:
        """Waits for the process. Describes how it ended, with the last line of its log."""
        status = self._process.wait()
        log = self._log.read_text(errors="replace").strip().splitlines()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return sanitize(f"the process ended by {how}" + (f": {log[-1][:200]}" if log else ""), keep="")

    def close(self) -> None:
        self.kill()
        os.close(self._lines)
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()


class StoreChecker:
    """Judges stores in a child process. If the child dies or hangs, a new one replaces it."""

    def __init__(self, target: CrashTarget, home: Path) -> None:
        self._target, self._home = target, home
        self._child: CrashProcess | None = None
        self._patience = HANG_SECONDS

    def look(self, acknowledged: int, begun: int) -> Judgement:
        """Judges the store after `acknowledged` and `begun` transactions, and commits another one."""
        with suppress(psutil.Error):
            # An engine that leaks open files must not affect the judgement of the next store.
            if self._child is not None and psutil.Process(self._child.pid).num_fds() > MOST_FILES:
                self.close()
        if self._child is None:
            self._child = CrashProcess(self._target, JUDGE, self._home)
            self._child.send(asdict(self._target))
        self._child.send({"home": str(self._home), "acknowledged": acknowledged, "begun": begun})
        sent = time.monotonic()
        try:
            line = self._child.line(self._patience)
        except TimeoutError:
            self.close()
            return Judgement(HANG, f"it could not be opened and read within {self._patience:.0f} s")
        if line is None:
            why = self._child.ended()
            self.close()
            return Judgement(CRASH, why)
        self._patience = max(self._patience, HANG_TIMES * (time.monotonic() - sent))
        return Judgement(**json.loads(line))

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def write_job(
    target: CrashTarget, home: Path, start: int, commits: int | None, stop: bool = False, often: int = 1
) -> str:
    """Writes the job of a committing process to a file next to the store. Returns its path."""
    job = {"target": asdict(target), "home": str(home), "start": start, "commits": commits}
    path = home.parent / "job.json"
    path.write_text(json.dumps({**job, "stop": stop, "often": often}))
    return str(path)


def numbers(lines: Sequence[str], word: str) -> list[int]:
    """Returns the numbers from the lines that begin with `word`."""
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]
