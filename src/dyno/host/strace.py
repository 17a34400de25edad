"""Counts the system calls of running processes by `strace`, which stops them at each call: nothing can be timed
meanwhile."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic, sleep

from dyno.host.perf import POLL_SECONDS, PRINTED, START_SECONDS, CannotProfile, interrupt
from dyno.host.procfs import read_text

PROGRAM = "strace"
MISSING = "strace not found: on Debian, install the package strace"
MOST_WHY = 200


def find_trouble() -> str | None:
    """Returns why system calls can't be counted here, and what to do; None if they can."""
    if shutil.which(PROGRAM) is None:
        return MISSING
    with tempfile.TemporaryDirectory(prefix="dyno-strace-") as directory:
        try:
            with subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                try:
                    counting = CallCounter([process.pid], Path(directory, "tried"))
                    counting.stop()
                finally:
                    process.kill()
        except OSError as error:
            return f"strace does not work: {error}"
        except CannotProfile as error:
            return str(error)
    return None


class CallCounter:
    """Counts the system calls of running processes, their threads, and those that they start, until `stop`."""

    def __init__(self, pids: Sequence[int], path: Path) -> None:
        """Begins to count before this returns. Raises CannotProfile."""
        self._path = path
        self._printed = path.with_suffix(path.suffix + PRINTED)
        attach = [word for pid in pids for word in ("-p", str(pid))]
        try:
            with self._printed.open("wb") as output:
                self._process = subprocess.Popen(
                    [PROGRAM, "-f", "-c", "-o", str(path), *attach],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError as error:
            raise CannotProfile(f"strace does not work: {error}") from None
        deadline = monotonic() + START_SECONDS
        while self._process.poll() is None and monotonic() < deadline:
            # Threads of a process are attached before its line is printed.
            if (read_text(self._printed) or "").count(" attached") >= len(pids):
                return
            sleep(POLL_SECONDS)
        self.stop()
        said = (read_text(self._printed) or "it printed nothing").splitlines()[0]
        raise CannotProfile(f"strace does not work: {said[:MOST_WHY]}")

    def stop(self) -> None:
        """Ends the counting. May be called twice."""
        interrupt(self._process)

    def read(self) -> Counter[str]:
        """Returns the number of calls by name, and removes the files. Raises CannotProfile."""
        try:
            return parse_summary(self._path.read_text(errors="replace").splitlines())
        except OSError as error:
            raise CannotProfile(f"strace does not work: {error}") from None
        finally:
            for path in (self._path, self._printed):
                path.unlink(missing_ok=True)


def parse_summary(lines: Iterable[str]) -> Counter[str]:
    """Returns the number of calls by name in what `strace -c` prints. A column of errors is there only for calls that
    failed."""
    calls = Counter[str]()
    for line in lines:
        words = line.split()
        if len(words) in (5, 6) and words[3].isdigit() and words[-1] != "total":
            calls[words[-1]] += int(words[3])
    return calls
