"""What a trial's processes use, and the watch that ends a trial which takes too much or too long."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

INTERVAL = 0.05


def anonymous_bytes(pid: int) -> int:
    """Memory of a process that no file backs, in bytes: what it took, not what the page cache maps into it.

    Zero for a process that is gone.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    found = (fields.get(name, "0 kB").split()[0] for name in ("RssAnon", "RssShmem"))
    return sum(int(kib) << 10 for kib in found)


@dataclass
class Watch:
    """Looks at a worker and, where it has client processes, at those."""

    pid: int
    limit_bytes: int
    deadline: float
    """On the clock of `time.monotonic`."""
    family: bool
    peak_bytes: int = field(default=0)

    def verdict(self) -> str | None:
        """'timeout' or 'out-of-memory', or None while all is well."""
        used = sum(anonymous_bytes(pid) for pid in self._pids())
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self.limit_bytes:
            return "out-of-memory"
        return "timeout" if time.monotonic() > self.deadline else None

    def _pids(self) -> Iterable[int]:
        yield self.pid
        if self.family:
            with suppress(psutil.Error):
                yield from (child.pid for child in psutil.Process(self.pid).children(recursive=True))


def default_limit() -> int:
    """Three quarters of the memory that is available now, in bytes."""
    return int(psutil.virtual_memory().available * 0.75)
