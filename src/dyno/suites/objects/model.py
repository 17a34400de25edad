"""What the database must hold: the branches of its root, the numbers of objects, and what was acknowledged.

Shared with client processes, which are forked: each writes only what is its own.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

SETS, OWN, SHARED, OTHERS, BLOBS = "sets", "own", "shared", "others", "blobs"
"""Branches: containers that all read; one for each client, which it changes; one that all change; what is there so
that the database is as large as it is to be; blobs that all read."""
MOST_WRITTEN = 1 << 17
"""Containers that a client may write in one phase: some minutes of the fastest."""
_AREA = 10**12
"""Numbers of objects that a branch has to itself."""


def written_by(client: int, phase: str) -> str:
    """The branch of what a client writes in a phase."""
    return f"{phase}-{client}"


def _shared(*shape: int) -> NDArray[Any]:
    size = int(np.prod(shape)) * 8
    return np.frombuffer(mmap.mmap(-1, size), dtype=np.int64).reshape(shape)


class Model:
    """Of one store, whose branches all are there."""

    def __init__(self, clients: int, phases: tuple[str, ...], objects: int) -> None:
        self._objects = objects
        self._areas = {name: at for at, name in enumerate((SETS, OWN, SHARED, OTHERS, BLOBS))}
        for phase in phases:
            for client in range(clients):
                self._areas[written_by(client, phase)] = len(self._areas)
        self.written = {
            phase: np.frombuffer(mmap.mmap(-1, clients * MOST_WRITTEN), dtype=np.uint8) for phase in phases
        }
        """By client and number of container: 0 nothing, 1 acknowledged, 2 it raised and may be there or not."""
        self.versions = _shared(clients)
        """Of each client's own container."""
        self.unsure = _shared(clients)
        """Of those, whether a transaction raised since."""
        self.counted = _shared(clients, 2)
        """Acknowledged by each client in the shared container, and what raised there."""
        self.conflicts = _shared(clients)
        self.removed = 0
        """Containers that all read, of which so many were removed again: those of the lowest numbers."""

    @property
    def branches(self) -> list[str]:
        return list(self._areas)

    def first(self, branch: str, key: int) -> int:
        """The number of the first object of a container."""
        return self._areas[branch] * _AREA + key * self._objects

    def mark(self, phase: str, client: int, key: int, raised: bool) -> None:
        self.written[phase][client * MOST_WRITTEN + key] = 2 if raised else 1

    def marks(self, phase: str, client: int) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = self.written[phase][client * MOST_WRITTEN : (client + 1) * MOST_WRITTEN]
        return found
