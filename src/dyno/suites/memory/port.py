"""The port `memory-access`."""

from __future__ import annotations

from typing import Protocol

from dyno.contracts.suite import Report

BLOCKS = ("sequential-read", "sequential-write", "random-read", "random-write")
"""Each event accesses a block of the thread's own memory, word by word or in random order."""
TRIAD, CHASE = "triad", "chase"
CACHES = ("L1d", "L2", "L3")
"""Data caches, as named by `dyno.host.caches`."""
LINE_BYTES, TRIAD_BYTES = 64, 24
"""Bytes of a node of the chase, and of an element of the triad: two doubles read and one written."""


class Memory(Protocol):
    """Engines implement it as a class called with `(engine,)`."""

    def work(self, pattern: str, threads: int, size_bytes: int, limit_ns: int, seed: int) -> Report:
        """Runs one of BLOCKS, the triad or the chase, with a working set of `size_bytes` per thread.

        Operations of the report are events, and it has the bytes moved. For the chase, operations and items are hops.
        The fact `wrong` counts wrong results, if the engine checks them. Raises Absent for a pattern that the engine
        does not have.
        """

    def close(self) -> None:
        return None
