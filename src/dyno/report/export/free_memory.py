"""Returns freed memory to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def trim() -> None:
    """Returns memory to the system that the C library holds although it was freed. vl-convert leaves much of it after
    it has bundled the charting library in its threads."""
    # Only the GNU C library has this function.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
