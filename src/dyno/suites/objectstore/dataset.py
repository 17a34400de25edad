"""The objects of the suite objectstore: their names, their bodies, and the digest of each body."""

from __future__ import annotations

import hashlib
import random
from functools import cache

DIGEST = hashlib.sha256
STEP, MOST, HELD = 64, 32, 1 << 28
BLOCK = (1 << 20) + 7
"""Bytes after which the text repeats: no two windows are a multiple of it apart."""
FILLER_BYTES = 1_000


class Bodies:
    """Different bodies of one size, as many as there is time to digest.

    Each is a window of one random text, STEP bytes after the window before, so that all take the memory of one.
    """

    def __init__(self, seed: int, size: int) -> None:
        self.size = size
        self.count = max(2, min(MOST, HELD // size))
        length = size + STEP * self.count
        block = random.Random(f"{seed}:{size}").randbytes(min(length, BLOCK))
        self._text = memoryview((block * (length // len(block) + 1))[:length])
        self.digest = cache(self._digest)

    def body(self, number: int) -> memoryview:
        at = number % self.count * STEP
        return self._text[at : at + self.size]

    def right(self, number: int, start: int = 0, end: int | None = None) -> bytes:
        """The digest of a body, or of a range of it."""
        return self.digest(number % self.count, start, self.size if end is None else end)

    def _digest(self, which: int, start: int, end: int) -> bytes:
        return DIGEST(self.body(which)[start:end]).digest()


class Names:
    """Names of the objects that are in a bucket throughout, by number, spread over prefixes in turn."""

    def __init__(self, objects: int, prefixes: int) -> None:
        self.prefixes = min(prefixes, objects)
        self.every = [f"{self.prefix(at)}{at:08d}" for at in range(objects)]

    def prefix(self, number: int) -> str:
        return f"objects/{number % self.prefixes:04d}/"

    def after(self, number: int, most: int) -> list[str]:
        """The names that follow an object's in a list of its prefix; at most `most`."""
        return self.every[number + self.prefixes :: self.prefixes][:most]
