"""Waits until an engine has come to rest: background threads that flush and compact belong to the phase before."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from time import monotonic_ns, sleep, time_ns

from dyno.host import tree
from dyno.host.procfs import difference
from dyno.host.usage import of_thread_ns, of_tree, own, starved

WINDOW_NS = 10_000_000
SERVER_WINDOW_NS = 50_000_000
"""With a server: another process's CPU time comes in ticks of 10 ms, which a shorter window may well miss."""
QUIET_WINDOWS = 2
BUSY_SHARE = 0.1
"""Of a window, CPU time over which something is still at work."""
LONGEST_NS = 10_000_000_000

_flushed: dict[tuple[int, int], int] = {}
"""When files were last flushed, in this trial: a server has a thousand, of which a phase changes a few, and the
device is asked to flush for each."""
MARGIN_NS = 2_000_000_000
"""A file that was changed so long before it was flushed is flushed again: file systems tell times in steps."""


def rest(server: Iterable[int], home: Path) -> None:
    """Before a phase: the engine comes to rest, and what waits in the page cache to be written is written.

    Else a phase would pay for the one before; and a page that is dirty already counts for nobody when it is written
    to again.
    """
    settle(server, windows=1)
    for path in tree.files(home):
        with suppress(OSError):
            about = path.stat()
            known = about.st_dev, about.st_ino
            if S_ISREG(about.st_mode) and about.st_ctime_ns > _flushed.get(known, 0) - MARGIN_NS:
                began = time_ns()
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                _flushed[known] = began


def settle(server: Iterable[int], longest_ns: int = LONGEST_NS, windows: int = QUIET_WINDOWS) -> bool:
    """Returns once this process and the server's have neither computed nor written for some windows.

    A window is 10 ms, or 50 ms where there is a server. False if that did not come within `longest_ns`.
    """
    quiet, deadline, pids = 0, monotonic_ns() + longest_ns, list(server)
    window_ns = SERVER_WINDOW_NS if pids else WINDOW_NS
    before = _work(pids)
    while monotonic_ns() < deadline:
        sleep(window_ns / 1e9)
        after = _work(pids)
        computed, wrote = map(difference, before, after)
        # What can't be known can't be waited for. What has no core for some windows is not at rest.
        still = (computed or 0) < BUSY_SHARE * window_ns and not wrote and not starved()
        quiet = quiet + 1 if still else 0
        if quiet == windows:
            return True
        before = after
    return False


def _work(server: list[int]) -> tuple[int | None, int | None]:
    """CPU time and bytes written so far, but for this thread's time: looking at a server's processes costs much."""
    used, watching = own(), sum(of_thread_ns())
    if server:
        used += of_tree(server)
    if used.user_ns is None or used.system_ns is None:
        return None, used.written_bytes
    return used.user_ns + used.system_ns - watching, used.written_bytes
