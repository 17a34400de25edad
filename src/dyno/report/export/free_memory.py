"""Returns freed memory to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def trim() -> None:
    """Returns freed memory that the C library holds to the system. vl-convert leaves much of it after bundling the
    charting library in threads of its own."""
    # Only the GNU C library has this function.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
