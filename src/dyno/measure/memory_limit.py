"""The limits of the memory for inputs and answers."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from dyno.host.procfs import input_bytes

HELD_BYTES = 512 << 20
"""Limit of the memory growth of all clients together in a batch. The batch then ends."""
LOADED_BYTES = 64 << 20
"""Limit of the memory growth while the inputs of a batch are built. Large inputs make the batch shorter. It is less
in a process whose memory is limited: see `input_bytes`."""
CHECK_NS = 20_000_000
"""Time between two checks of the memory in a batch."""
CHECK_LOADING_NS = 1_000_000
"""Time between two checks of the memory while the inputs of a batch are built."""
_PAGE, _STATM = os.sysconf("SC_PAGE_SIZE"), Path("/proc/self/statm")


@cache
def loaded_bytes() -> int:
    return input_bytes(LOADED_BYTES)


class MemoryLimit:
    """Limits the growth of this process's anonymous memory in a batch."""

    def __init__(self, clients: int, now: int, most: int = HELD_BYTES, loading: bool = False) -> None:
        """`loading`: whether the inputs of a batch are built, of which a single one may be large."""
        if loading:
            self._check_ns = CHECK_LOADING_NS
        else:
            self._check_ns = CHECK_NS
        self._most = most // clients
        self._next = now + self._check_ns
        self._before = _anonymous_bytes() if loading else None

    def full(self, now: int) -> bool:
        if now < self._next:
            return False
        self._next = now + self._check_ns
        current = _anonymous_bytes()
        if self._before is None:
            # First measured at the first check rather than at the batch's start, because most batches end before it.
            self._before = current
        return current - self._before > self._most


def _anonymous_bytes() -> int:
    pages = [0, 0, 0]
    with suppress(OSError):
        pages = list(map(int, _STATM.read_text().split()))
    return (pages[1] - pages[2]) * _PAGE
