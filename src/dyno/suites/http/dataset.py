"""The bodies of the suite http, and what each must be. No engine may be named here."""

from __future__ import annotations

import random


def bodies(seed: int, files: int, size: int) -> list[bytes]:
    """So many of that size, each by its number and the seed: no two are the same, but for those of no bytes."""
    return [random.Random(f"{seed}:{at}").randbytes(size) for at in range(files)]
