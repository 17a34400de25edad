"""Parent's side of the two child processes of store.py, which may die, hang, or leave processes behind.

`kills` kills one store again and again: SIGKILL hits the committing process or its server at a random moment, Dyno
judges the store, and the next process continues with it.
"""

import json
import os
import random
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from dyno.contracts.sanitize import sanitize
from dyno.crash.store import CRASH, HANG, LOST, OK, CrashTarget, Judgement
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
    python = target.spec.python(target.options)
    return [*python.words("dyno.crash.store"), command, *arguments]


class CrashProcess:
    """A child process in its own session, which writes lines to a pipe. Its standard output goes to a log file."""

    def __init__(self, target: CrashTarget, command: str, home: Path, *arguments: str) -> None:
        self._home = home
        self._buffer = b""
        self._has_server = target.spec.server is not None
        self._log = home.parent / f"{command}.log"
        self._lines, writing = os.pipe()
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                words(target, command, *arguments, f"/dev/fd/{writing}"),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                **own_session(),
            )
        os.close(writing)

    def send(self, message: Mapping[str, object]) -> None:
        """Sends a message as a line of JSON. If the process has ended, the next call of `line` returns None."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

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

    def kill(self) -> None:
        """Kills the engine's server (if any), then the process and its session."""
        if self._has_server:
            # A server that has just started isn't recorded yet. The kernel would kill it with its parent, but later,
            # so that the next process would still find it running.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.process.pid, signal.SIGSTOP)
            leftover_processes.kill(leftover_processes.family(self.process.pid)[1:])
        leftover_processes.clear(self._home)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait_for_end(self) -> str:
        """Waits for the process. Describes how it ended, with the last line of its log."""
        status = self.process.wait()
        log = self._log.read_text(errors="replace").strip().splitlines()
        if status < 0:
            how = f"signal {signal.Signals(-status).name}"
        else:
            how = f"exit status {status}"
        return sanitize(f"the process ended by {how}" + (f": {log[-1][:200]}" if log else ""), keep="")

    def close(self) -> None:
        self.kill()
        os.close(self._lines)
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()


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
            if self._child is not None and psutil.Process(self._child.process.pid).num_fds() > MOST_FILES:
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
            why = self._child.wait_for_end()
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
    path, job = home.parent / "job.json", {"target": asdict(target), "home": str(home), "start": start, "stop": stop}
    path.write_text(json.dumps({**job, "commits": commits, "often": often}))
    return str(path)


def numbers(lines: Sequence[str], word: str) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]


MOST_COMMITS = 12
"""Maximum number of acknowledged commits before a process is killed."""
OFTEN = 3
"""Factor by which maintenance is more frequent than in a recording, since there are fewer commits."""
START_SECONDS = 300.0
FIRST_OPENING_SECONDS = 0.1
"""Assumed time for opening a store, until a real one has been measured."""


@dataclass(frozen=True)
class Kill:
    """A kill, and the judgement of the store after it."""

    judgement: Judgement
    acknowledged: int
    begun: int
    words: str
    lines: Sequence[str]
    """Output of the committing process."""


class WorkloadFailed(Exception):
    """The workload could not run at all. The message says why."""


def kills(target: CrashTarget, home: Path, count: int, seed: int, keep: Callable[[Kill], object]) -> Iterator[Kill]:
    """Kills `count` times. Calls `keep` for each broken store before it is used again. Raises WorkloadFailed."""
    rng = random.Random(f"kills {seed}")
    opening, start = FIRST_OPENING_SECONDS, 0
    home.mkdir(parents=True, exist_ok=True)
    with closing(StoreChecker(target, home)) as checker:
        for _ in range(count):
            lines, opening = _run_and_kill(target, home, start, rng, opening)
            acknowledged = start + len(numbers(lines, "done"))
            begun = max([acknowledged, *(number + 1 for number in numbers(lines, "begun"))])
            judgement = checker.look(acknowledged, begun)
            words = f"killed after {acknowledged - start} of its commits"
            words += ", within one" if begun > acknowledged else ""
            kill = Kill(judgement, acknowledged, begun, words, lines)
            if not judgement.sound:
                keep(kill)
            if judgement.outcome in (OK, LOST) and judgement.held is not None:
                start = judgement.held + 1
            else:
                # A damaged store would spoil the next judgement, so start a new store.
                checker.close()
                shutil.rmtree(home)
                home.mkdir()
                start = 0
            yield kill


def _run_and_kill(
    target: CrashTarget, home: Path, start: int, rng: random.Random, opening: float
) -> tuple[list[str], float]:
    """Runs a process and kills it, either while it opens the store or shortly after one of its commits. Returns its
    lines, and the time in seconds of its opening, or else of the last one."""
    wanted, share = rng.randrange(MOST_COMMITS), rng.random()
    lines: list[str] = []
    begun = opened = time.monotonic()
    child = CrashProcess(target, COMMIT, home, write_job(target, home, start, None, often=OFTEN))
    try:
        if not wanted:
            time.sleep(share * opening * 1.5)
        while len(numbers(lines, "done")) < wanted:
            line = child.line(START_SECONDS)
            if line is None or line.startswith("failed "):
                raise WorkloadFailed(line.removeprefix("failed ") if line else child.wait_for_end())
            lines.append(line)
            if line.startswith("opened"):
                opened = time.monotonic()
                opening = opened - begun
        if wanted:
            time.sleep(share * (time.monotonic() - opened) / wanted * 2)
        child.kill()
        with suppress(TimeoutError):
            while (line := child.line(1.0)) is not None:
                lines.append(line)
    except TimeoutError:
        raise WorkloadFailed(f"it did nothing for {START_SECONDS:g} s") from None
    finally:
        child.close()
    return lines, opening
