"""The port `memory-access`. No engine and no measuring may be put here."""

from __future__ import annotations

from typing import Protocol

from dyno.contracts.suite import Report

BLOCKS = ("sequential-read", "sequential-write", "random-read", "random-write")
"""Each event goes over a block of memory of the thread's own, word by word or in random order."""
TRIAD, CHASE = "triad", "chase"
CACHES = ("L1d", "L2", "L3")
"""For data, as `dyno.host.caches` calls them."""
LINE_BYTES, TRIAD_BYTES = 64, 24
"""What a hop of the chase has for itself; and an element of the triad: two doubles read and one written."""


class Memory(Protocol):
    """Engines implement it as a class called with `(engine,)`."""

    def work(self, pattern: str, threads: int, size_bytes: int, limit_ns: int, seed: int) -> Report:
        """One of BLOCKS, the triad or the chase, with a working set of so many bytes for each thread.

        The report's operations are events; it tells the bytes that were moved, but for the chase, of which operations
        and items are hops. Its fact `wrong` counts what was not as it must be, where the engine looks. Raises Absent
        for a pattern that is not the engine's.
        """

    def close(self) -> None: ...
