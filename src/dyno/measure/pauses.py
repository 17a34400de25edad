"""Measurements between batches, and the limit of the memory for inputs and answers."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import process_time_ns

from dyno.host.usage import of_thread_ns, waits_of_thread
from dyno.measure.position import ClientPosition
from dyno.measure.schedule import HELD_BYTES
from dyno.measure.tally import Tally

CHECK_NS = 20_000_000
"""Time between two checks of the memory in a batch."""
CHECK_LOADING_NS = 1_000_000
"""Time between two checks of the memory while the inputs of a batch are built."""
_PAGE, _STATM = os.sysconf("SC_PAGE_SIZE"), Path("/proc/self/statm")


class PauseMeter:
    """Measures pauses: the CPU time of this thread, of its process and of the server, and how often this thread
    waited for other clients."""

    def __init__(self, position: ClientPosition, watch: Callable[[], int]) -> None:
        self._leads, self._watch = position.leads, watch
        self.begin()

    def begin(self) -> None:
        self._thread, self._waits = of_thread_ns(), waits_of_thread()
        self._process, self._server = (process_time_ns(), self._watch()) if self._leads else (0, 0)

    def end(self, tally: Tally) -> None:
        user, system = of_thread_ns()
        tally.paused = (tally.paused[0] + user - self._thread[0], tally.paused[1] + system - self._thread[1])
        tally.paused_waits += waits_of_thread() - self._waits
        if self._leads:
            tally.pause_process_ns += process_time_ns() - self._process
            tally.pause_server_ns += self._watch() - self._server


class MemoryLimit:
    """Limits the growth of this process's anonymous memory in a batch."""

    def __init__(self, clients: int, now: int, most: int = HELD_BYTES, loading: bool = False) -> None:
        """`loading`: whether the inputs of a batch are built, of which a single one may be large."""
        self._check_ns = CHECK_LOADING_NS if loading else CHECK_NS
        self._most, self._next = most // clients, now + self._check_ns
        self._before = _anonymous_bytes() if loading else None

    def full(self, now: int) -> bool:
        if now < self._next:
            return False
        self._next, current = now + self._check_ns, _anonymous_bytes()
        if self._before is None:
            # First measured at the first check rather than at the batch's start, because most batches end before it.
            self._before = current
        return current - self._before > self._most


def _anonymous_bytes() -> int:
    pages = [0, 0, 0]
    with suppress(OSError):
        pages = list(map(int, _STATM.read_text().split()))
    return (pages[1] - pages[2]) * _PAGE
