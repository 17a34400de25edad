"""The content of objects and blobs, generated from a number and a version, and the model of what the database must
hold.

The model is shared with client processes, which are forked: each writes only its own part.
"""

from __future__ import annotations

import mmap
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.suites.objects.transactions import HEAD, HEAD_BYTES

_BLOCK = 1 << 16
_STEP = 7_919
"""Distance of two consecutive numbers' fillings in the block: a prime."""

SETS, OWN, SHARED, OTHERS, BLOBS = "sets", "own", "shared", "others", "blobs"
"""Branches of the root: containers that all clients read; one container per client, which it changes; one container
that all clients change; objects that only make the database larger; blobs that all clients read."""
MAX_WRITTEN = 1 << 17
"""Containers that a client may write in one phase: some minutes of the fastest storage."""
_AREA = 10**12
"""Object numbers reserved for each branch."""


class Dataset:
    """Contents of one size, incompressible. Seeded by the job alone, so that every engine gets the same bytes."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self._rest = size - HEAD_BYTES
        block = random.Random(f"{seed}:objects").randbytes(_BLOCK)
        # Long enough for a filling to start anywhere in the block.
        self._filling = (block * (self._rest // _BLOCK + 2))[: _BLOCK + self._rest]

    def content(self, number: int, version: int) -> bytes:
        """The content of an object at a version, different from every other."""
        start = (number * _STEP + version * 104_729) % _BLOCK
        return HEAD % (number, version) + self._filling[start : start + self._rest]

    def contents(self, first: int, count: int, version: int) -> list[bytes]:
        """The contents of `count` consecutive objects."""
        content = self.content
        return [content(number, version) for number in range(first, first + count)]


def client_branch(client: int, phase: str) -> str:
    """The branch of the containers that a client writes in a phase."""
    return f"{phase}-{client}"


def _shared_array(*shape: int) -> NDArray[Any]:
    size = int(np.prod(shape)) * 8
    return np.frombuffer(mmap.mmap(-1, size), dtype=np.int64).reshape(shape)


class Model:
    """What a store with all its branches must hold."""

    def __init__(self, clients: int, phases: tuple[str, ...], objects: int) -> None:
        self._objects = objects
        names = [client_branch(client, phase) for phase in phases for client in range(clients)]
        self._areas = {name: at for at, name in enumerate((SETS, OWN, SHARED, OTHERS, BLOBS, *names))}
        self._written = {
            phase: np.frombuffer(mmap.mmap(-1, clients * MAX_WRITTEN), dtype=np.uint8) for phase in phases
        }
        """By client and container: 0 not written, 1 acknowledged, 2 raised, so that it may exist or not."""
        self.versions = _shared_array(clients)
        """The version of each client's own container."""
        self.unsure = _shared_array(clients)
        """For each client's own container, whether a transaction raised since."""
        self.counted = _shared_array(clients, 2)
        """Transactions on the shared container by each client: acknowledged, raised."""
        self.conflicts = _shared_array(clients)
        self.removed = 0
        """How many containers of SETS were removed again, from number 0 up."""

    @property
    def branches(self) -> list[str]:
        return list(self._areas)

    def first(self, branch: str, key: int) -> int:
        """The number of a container's first object."""
        return self._areas[branch] * _AREA + key * self._objects

    def written(self, phase: str, client: int) -> NDArray[np.uint8]:
        """By container: 0 not written, 1 acknowledged, 2 raised, so that it may exist or not."""
        start = client * MAX_WRITTEN
        written: NDArray[np.uint8] = self._written[phase][start : start + MAX_WRITTEN]
        return written
