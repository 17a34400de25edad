"""Memory that is free and not yet the system's again."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def trim() -> None:
    """Gives the system back what the C library keeps for more of the same: much, after vl-convert put the charting
    library together in threads of its own, and before its V8 takes memory from elsewhere."""
    # Other C libraries than GNU's have no such function.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
