"""The content of objects and blobs: bytes that follow from a number and a version, and that nobody can compress."""

from __future__ import annotations

import random

HEAD = b"%016d.%09d."
HEAD_BYTES = len(HEAD % (0, 0))
_BLOCK = 1 << 16
_STEP = 7_919
"""Bytes by which the fillings of one number and the next are apart in the block: a prime."""


class Dataset:
    """Seeded by the job alone: every engine gets the same bytes."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        rest = size - HEAD_BYTES
        block = random.Random(f"{seed}:objects").randbytes(_BLOCK)
        # So that a filling may begin anywhere in the block.
        self._filling = (block * (rest // _BLOCK + 2))[: _BLOCK + rest]
        self._rest = rest

    def content(self, number: int, version: int) -> bytes:
        """Of that object at that version; no two are the same."""
        start = (number * _STEP + version * 104_729) % _BLOCK
        return HEAD % (number, version) + self._filling[start : start + self._rest]

    def contents(self, first: int, count: int, version: int) -> list[bytes]:
        """Of so many objects from a number on."""
        content = self.content
        return [content(number, version) for number in range(first, first + count)]
