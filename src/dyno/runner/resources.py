"""Watches a trial's limits of memory and time."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, thread_time

import psutil

from dyno.host.procfs import read_lines, read_text

INTERVAL = 0.05
SHARE, LONGEST = 0.01, 1.0
"""Maximum share of the time that is spent on searching for new processes, and maximum time between two searches, in
s."""


def anonymous_bytes(pids: Iterable[int]) -> int:
    """Returns the anonymous memory of processes, in bytes. It excludes pages that are mapped from files. Shared
    memory is counted once, for the process that has the most."""
    own, shared = 0, 0
    for pid in pids:
        status = dict(line.partition(":")[::2] for line in read_lines(Path(f"/proc/{pid}/status")))
        anonymous, common = (int((status.get(name) or "0").split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
        own, shared = own + anonymous, max(shared, common)
    return own + shared


def descendants(pid: int) -> Iterator[int]:
    """Yields all descendants of a process. Uses the kernel's list of children if there is one, because reading every
    process of the machine disturbs the measurement."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        with suppress(psutil.Error):
            yield from (child.pid for child in psutil.Process(pid).children(recursive=True))
        return
    # The process may have ended: servers start and end processes at any time.
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (read_text(task / "children") or "").split()):
                yield child
                yield from descendants(child)


@dataclass
class Watch:
    """Watches a worker, its client processes and its server."""

    pid: int
    limit_bytes: int
    deadline: float
    """Time of the kill, in s on the clock of `time.monotonic`."""
    peak_bytes: int = field(default=0)
    _descendants: list[int] = field(default_factory=list)
    _next_search: float = 0.0

    def verdict(self) -> str | None:
        """Returns 'timeout' or 'out-of-memory', or None while the trial is within its limits."""
        # Search for new descendants at times only. With a server of hundreds of threads, a search takes CPU time of
        # milliseconds from the measurement.
        if monotonic() >= self._next_search:
            began = thread_time()
            self._descendants = list(descendants(self.pid))
            self._next_search = monotonic() + min((thread_time() - began) / SHARE, LONGEST)
        used = anonymous_bytes([self.pid, *self._descendants])
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self.limit_bytes:
            return "out-of-memory"
        return "timeout" if monotonic() > self.deadline else None


def default_limit() -> int:
    """Returns three quarters of the memory that is available now, in bytes."""
    return int(psutil.virtual_memory().available * 0.75)
