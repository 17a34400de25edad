"""Contents of objects and blobs, generated from number and version, and the model of the database's contents.

Client processes, which are forked, share the model. Each writes only its own part.
"""

import mmap
import random
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import Value
from dyno.suites.objects.transactions import HEAD, HEAD_BYTES

_BLOCK = 1 << 16
_STEP = 7_919
"""Distance of two consecutive numbers' filling bytes in the block; a prime."""

SETS = "sets"
OWN = "own"
SHARED = "shared"
OTHERS = "others"
BLOBS = "blobs"
"""Branches of the root: SETS has containers that all clients read; OWN has one container per client, which that
client changes; SHARED has one container that all clients change; OTHERS has objects that only enlarge the database;
BLOBS has blobs that all clients read."""
WRITING = ("write", "read", "blob-write")
"""Phases in which each client writes new containers of its own."""
MAX_WRITTEN = 1 << 17
"""Maximum number of containers that a client writes in one phase: some minutes' work of the fastest storage."""
_AREA = 10**12
"""Number of object numbers reserved for each branch."""


class Dataset:
    """Incompressible contents of one size. The seed is the job's, so that every engine gets the same bytes."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self._rest = size - HEAD_BYTES
        block = random.Random(f"{seed}:objects").randbytes(_BLOCK)
        # The filling is long enough for contents to start anywhere in the block.
        self._filling = (block * (self._rest // _BLOCK + 2))[: _BLOCK + self._rest]

    def content(self, number: int, version: int) -> bytes:
        """Returns the content of an object at a version, which differs from all others."""
        start = (number * _STEP + version * 104_729) % _BLOCK
        return HEAD % (number, version) + self._filling[start : start + self._rest]

    def contents(self, first: int, count: int, version: int) -> list[bytes]:
        """Returns the contents of `count` consecutive objects."""
        content = self.content
        return [content(number, version) for number in range(first, first + count)]


def client_branch(client: int, phase: str) -> str:
    """Returns the branch of the containers that a client writes in a phase."""
    return f"{phase}-{client}"


def _shared_array(*shape: int) -> NDArray[np.int64]:
    size = int(np.prod(shape)) * 8
    return np.frombuffer(mmap.mmap(-1, size), dtype=np.int64).reshape(shape)


class Model:
    """Parameters, datasets and expected contents of a trial's store, which all phases and clients share."""

    def __init__(self, params: Mapping[str, Value], clients: int, seed: int, judged: bool = True) -> None:
        self.objects, self.blobs_each = int(params["objects"]), int(params["blobs"])
        self.dataset, self.blobs = Dataset(int(params["object_size"]), seed), Dataset(int(params["blob_size"]), seed)
        self.transactions, self.seed = int(params["transactions"]), seed
        self.judged = judged
        """False for a null engine, whose answers are not checked."""
        names = [client_branch(client, phase) for phase in WRITING for client in range(clients)]
        self._areas = {name: at for at, name in enumerate((SETS, OWN, SHARED, OTHERS, BLOBS, *names))}
        area = clients * MAX_WRITTEN
        self._written = {phase: np.frombuffer(mmap.mmap(-1, area), dtype=np.uint8) for phase in WRITING}
        self.versions = _shared_array(clients)
        """Version of each client's own container."""
        self.unsure = _shared_array(clients)
        """Whether the latest transaction on each client's own container raised."""
        self.counted = _shared_array(clients, 2)
        """Number of each client's transactions on the shared container: acknowledged, raised."""
        self.conflicts = _shared_array(clients)
        self.removed = 0
        """Number of containers of SETS that were removed, from container 0 up."""

    @property
    def branches(self) -> list[str]:
        return list(self._areas)

    def first(self, branch: str, key: int) -> int:
        """Returns the number of a container's first object."""
        return self._areas[branch] * _AREA + key * max(self.objects, self.blobs_each)

    def contents(self, branch: str, key: int, version: int = 0, blobs: bool = False) -> list[bytes]:
        """Returns the contents of a container's objects or blobs."""
        if blobs:
            dataset = self.blobs
            count = self.blobs_each
        else:
            dataset = self.dataset
            count = self.objects
        return dataset.contents(self.first(branch, key), count, version)

    def written_states(self, phase: str, client: int) -> NDArray[np.uint8]:
        """Returns the state of each of a client's containers: 0 not written, 1 acknowledged, 2 raised (unknown)."""
        start = client * MAX_WRITTEN
        written: NDArray[np.uint8] = self._written[phase][start : start + MAX_WRITTEN]
        return written
