"""What goes on while the clock stands still, and how much a flight holds until then. Nothing is timed here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time_ns

from dyno.host.usage import of_thread_ns, waits_of_thread
from dyno.measure.tally import Tally

HELD_BYTES = 512 << 20
"""By how much the memory of all clients together may grow in a flight, which ends there."""
LOADED_BYTES = 64 << 20
"""By how much it may grow while the inputs of a flight are built: one that has few but large ones is shorter."""
LOOK_NS = 20_000_000
"""How long a flight, or the building of its inputs, goes on without a look at the memory."""
_PAGE, _STATM = os.sysconf("SC_PAGE_SIZE"), Path("/proc/self/statm")


@dataclass(frozen=True)
class ClientPosition:
    """Which client it is, of how many."""

    client: int = 0
    clients: int = 1
    leads: bool = True
    """Of clients that are threads of one process, the one that looks at what the whole of it used."""


ONE = ClientPosition()


class PauseMeter:
    """CPU time while the clock stands still: of this thread, which builds and judges, of all its process, and of the
    server. And how often this thread waited meanwhile, for other clients."""

    def __init__(self, place: ClientPosition, watch: Callable[[], int]) -> None:
        self._leads, self._watch = place.leads, watch
        self.begins()

    def begins(self) -> None:
        self._thread, self._waits = of_thread_ns(), waits_of_thread()
        self._process, self._server = (process_time_ns(), self._watch()) if self._leads else (0, 0)

    def ends(self, tally: Tally) -> None:
        user, system = of_thread_ns()
        tally.paused = (tally.paused[0] + user - self._thread[0], tally.paused[1] + system - self._thread[1])
        tally.paused_waits += waits_of_thread() - self._waits
        if self._leads:
            tally.pause_process_ns += process_time_ns() - self._process
            tally.pause_server_ns += self._watch() - self._server


class MemoryLimit:
    """Whether a flight holds too much: by how much this process's own memory, no mapped files, has grown."""

    def __init__(self, clients: int, now: int, most: int = HELD_BYTES) -> None:
        self._most, self._next = most // clients, now + LOOK_NS
        self._before: int | None = None

    def full(self, now: int) -> bool:
        if now < self._next:
            return False
        self._next, there = now + LOOK_NS, _anonymous_bytes()
        if self._before is None:
            # Not when the flight began: most are over before anybody looks.
            self._before = there
        return there - self._before > self._most


def _anonymous_bytes() -> int:
    try:
        words = _STATM.read_text().split()
    except OSError:
        return 0
    return (int(words[1]) - int(words[2])) * _PAGE
