"""Waits until an engine is at rest. What its background threads flush and compact belongs to the phase before."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from time import monotonic_ns, sleep, time_ns

from dyno.host import filesystem
from dyno.host.procfs import difference
from dyno.host.usage import of_thread_ns, of_tree, own, starved

WINDOW_NS = 10_000_000
SERVER_WINDOW_NS = 50_000_000
"""Window with a server. The CPU time of another process is counted in ticks of 10 ms, which a shorter window may
miss."""
QUIET_WINDOWS = 2
BUSY_SHARE = 0.1
"""Share of a window. An engine that uses more CPU time is not at rest."""
LONGEST_NS = 10_000_000_000

_flushed: dict[tuple[int, int], int] = {}
"""When each file, by device and inode, was last flushed in this trial. A server has a thousand files, of which a
phase changes only a few, and each fsync makes the device flush."""
MARGIN_NS = 2_000_000_000
"""File systems round times, so a file is flushed again unless it was last changed at least this long before its
flush."""


def rest(server: Iterable[int], home: Path) -> None:
    """Waits before a phase until the engine is at rest, and flushes the dirty pages of its files.

    Otherwise the phase would pay for the phase before, and writes to pages that are already dirty would not be
    counted.
    """
    settle(server, windows=1)
    for path in filesystem.files(home):
        with suppress(OSError):
            about = path.stat()
            known = about.st_dev, about.st_ino
            if S_ISREG(about.st_mode) and about.st_ctime_ns > _flushed.get(known, 0) - MARGIN_NS:
                began = time_ns()
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                _flushed[known] = began


def settle(server: Iterable[int], longest_ns: int = LONGEST_NS, windows: int = QUIET_WINDOWS) -> bool:
    """Waits until this process and the server's processes have neither computed nor written for some windows, of 10
    ms, or of 50 ms with a server. Returns False if that did not happen within `longest_ns`."""
    quiet, deadline, pids = 0, monotonic_ns() + longest_ns, list(server)
    window_ns = SERVER_WINDOW_NS if pids else WINDOW_NS
    before = _work(pids)
    while monotonic_ns() < deadline:
        sleep(window_ns / 1e9)
        after = _work(pids)
        computed, wrote = map(difference, before, after)
        # Unknown counters count as no work. An engine that gets no core is not at rest.
        still = (computed or 0) < BUSY_SHARE * window_ns and not wrote and not starved()
        quiet = quiet + 1 if still else 0
        if quiet == windows:
            return True
        before = after
    return False


def _work(server: list[int]) -> tuple[int | None, int | None]:
    """Returns the CPU time and the bytes written so far. The CPU time of this thread is left out, because it is
    expensive to read the counters of a server's processes."""
    used, watching = own(), sum(of_thread_ns())
    if server:
        used += of_tree(server)
    if used.user_ns is None or used.system_ns is None:
        return None, used.written_bytes
    return used.user_ns + used.system_ns - watching, used.written_bytes
