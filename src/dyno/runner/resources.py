"""What a trial's processes use, and the watch that ends a trial which takes too much or too long."""

from __future__ import annotations

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
"""Of the time, that a look for new processes may take; and the seconds after which there is one in any case."""


def anonymous_bytes(pids: Iterable[int]) -> int:
    """Memory of processes that no file backs, in bytes: what they took, not what the page cache maps into them.

    What they share counts once, by the process that has most of it. A process that is gone has none.
    """
    own, shared = 0, 0
    for pid in pids:
        status = dict(line.partition(":")[::2] for line in read_lines(Path(f"/proc/{pid}/status")))
        anonymous, common = (int((status.get(name) or "0").split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
        own, shared = own + anonymous, max(shared, common)
    return own + shared


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process started, and theirs. By the kernel's own list of children where it keeps
    one: to look at every process of the machine disturbs what is measured.
    """
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        with suppress(psutil.Error):
            yield from (child.pid for child in psutil.Process(pid).children(recursive=True))
        return
    # It may be gone by now: a server's processes come and go.
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (read_text(task / "children") or "").split()):
                yield child
                yield from descendants(child)


@dataclass
class Watch:
    """Looks at a worker, its client processes and its server."""

    pid: int
    limit_bytes: int
    deadline: float
    """On the clock of `time.monotonic`."""
    peak_bytes: int = field(default=0)
    _family: list[int] = field(default_factory=list)
    _again: float = 0.0
    """When it is looked for them again."""

    def verdict(self) -> str | None:
        """'timeout' or 'out-of-memory', or None while all is well."""
        used = anonymous_bytes([self.pid, *self._processes()])
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self.limit_bytes:
            return "out-of-memory"
        return "timeout" if monotonic() > self.deadline else None

    def _processes(self) -> list[int]:
        """As they were when it was last looked for them: of servers with hundreds of threads, each of which may have
        started one, that takes milliseconds, and takes them from what is measured."""
        if monotonic() >= self._again:
            began = thread_time()
            self._family = list(descendants(self.pid))
            self._again = monotonic() + min((thread_time() - began) / SHARE, LONGEST)
        return self._family


def default_limit() -> int:
    """Three quarters of the memory that is available now, in bytes."""
    return int(psutil.virtual_memory().available * 0.75)
