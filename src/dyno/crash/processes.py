"""The parent's side of the two processes: the one that commits until it is killed, and the one that judges. Neither
is trusted to live, to answer or to end what it started.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dyno.crash.judgement import CRASH, HANG, Judgement
from dyno.crash.store import Target
from dyno.host import interpreters
from dyno.host.process import die_with_parent
from dyno.servers import leftover_processes
from dyno.text.sanitize import sanitize

HANG_SECONDS = 120.0
"""For the recovery of a store of less than a MiB, one commit and another recovery: at least."""
HANG_TIMES = 20.0
"""How many times as long as the slowest that came back, on a machine that has other things to do."""
MOST_FILES = 256
"""That the process which judges may have open between two stores. An ordinary user's may have 1,024."""
BLOCK = 1 << 16


def words(target: Target, module: str, *arguments: str) -> list[str]:
    """The command that runs one of the modules here, by the interpreter that the engine's trials have."""
    python = str(target.spec.interpreter() or sys.executable)
    return [*interpreters.words(python, f"dyno.crash.{module}"), *arguments]


class CrashProcess:
    """A process of one of the modules, in a session of its own, which tells lines. What it or an engine prints goes
    to a file: its last line is told where it ends by itself."""

    def __init__(self, target: Target, module: str, home: Path, *arguments: str) -> None:
        self._home, self._buffer, self._serves = home, b"", target.spec.server is not None
        self._said = home.parent / f"{module}.log"
        reading, writing = os.pipe()
        self._lines = reading
        parent = os.getpid()
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                words(target, module, *arguments, f"/dev/fd/{writing}"),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                pass_fds=[writing],
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent),
            )
        os.close(writing)

    def send(self, told: Mapping[str, Any]) -> None:
        """A line. One that nobody reads any more is lost: the next answer is that it has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
            self._process.stdin.flush()

    def line(self, seconds: float) -> str | None:
        """The next line; None where it has ended. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        waiting = select.poll()
        waiting.register(self._lines, select.POLLIN)
        while b"\n" not in self._buffer:
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1e3):
                raise TimeoutError
            more = os.read(self._lines, BLOCK)
            if not more:
                return None
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace")

    def rest(self) -> Iterator[str]:
        """What it had told when it was killed."""
        with suppress(TimeoutError):
            while (line := self.line(1.0)) is not None:
                yield line

    def kill(self) -> None:
        """SIGKILL to the server that it has started, if any, which is the engine's own process, and then to itself
        and its session."""
        if self._serves:
            # One that was started a moment ago is not recorded yet, and would be ended by the kernel at its leisure:
            # the next would find it still there.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._process.pid, signal.SIGSTOP)
            leftover_processes.kill(leftover_processes.family(self._process.pid)[1:])
        leftover_processes.clear(self._home)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def files(self) -> int:
        """That it has open, as far as the system tells."""
        with suppress(OSError):
            return sum(1 for _ in Path(f"/proc/{self._process.pid}/fd").iterdir())
        return 0

    def ended(self) -> str:
        """How it came to its end by itself, in words."""
        status = self._process.wait()
        said = self._said.read_text(errors="replace").strip().splitlines()
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return sanitize(f"the process ended by {how}" + (f": {said[-1][:200]}" if said else ""), keep="")

    def close(self) -> None:
        self.kill()
        os.close(self._lines)
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()


class StoreChecker:
    """Judges stores by a process of their own, which is started anew after each that it did not survive."""

    def __init__(self, target: Target, home: Path) -> None:
        self._target, self._home = target, home
        self._child: CrashProcess | None = None
        self._patience = HANG_SECONDS

    def look(self, acknowledged: int, begun: int, more: bool = True) -> Judgement:
        """What the store is, after so many transactions. `more`: with one more commit."""
        asked = {"home": str(self._home), "acknowledged": acknowledged, "begun": begun, "more": more}
        if self._child is not None and self._child.files() > MOST_FILES:
            # What an engine leaves open when it is closed is no fault of the next store.
            self.close()
        if self._child is None:
            self._child = CrashProcess(self._target, "checker", self._home)
            self._child.send(self._target.data())
        self._child.send(asked)
        asked_at = time.monotonic()
        try:
            line = self._child.line(self._patience)
        except TimeoutError:
            self.close()
            return Judgement(HANG, f"it could not be opened and read within {self._patience:.0f} s")
        if line is None:
            why = self._child.ended()
            self.close()
            return Judgement(CRASH, why)
        self._patience = max(self._patience, HANG_TIMES * (time.monotonic() - asked_at))
        return Judgement(**json.loads(line))

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def job(target: Target, home: Path, start: int, commits: int | None, stop: bool = False, often: int = 1) -> str:
    """What a committer is told: a file beside the store."""
    told = {"target": target.data(), "home": str(home), "start": start, "commits": commits}
    told |= {"stop": stop, "often": often}
    path = home.parent / "job.json"
    path.write_text(json.dumps(told))
    return str(path)


def numbers(lines: Sequence[str], word: str) -> list[int]:
    """Of the lines that begin with that word, the number."""
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]
