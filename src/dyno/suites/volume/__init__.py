"""Volumes: how fast does a disk read and write, when does a new one become steady, and what does a flush cost?

Based on Cloud Mercato, "Do you warm up volumes ?" and "dd is not a benchmarking tool".
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Report, Suite

READ, WRITE = "read", "write"


class IO(NamedTuple):
    """A job for the tool. Sizes are in bytes."""

    pattern: str
    """Access pattern in fio's terms: read, write, rw, randread, randwrite or randrw."""
    block_size: int
    size: int
    """Size of the file, or of the used part of the device, from its start."""
    depth: int = 1
    """Number of requests in flight per job."""
    jobs: int = 1
    read_percent: int = 100
    """Share of reads in a mixed pattern."""
    flush: bool = False
    """Write through the page cache, with fdatasync(2) after each write."""
    once: bool = False
    """End when every block has been read or written once, whatever the time limit."""
    seed: int = 1

    @property
    def mixed(self) -> bool:
        return self.pattern.endswith("rw")


class Round(NamedTuple):
    """One round of a longer job."""

    ends_ns: int
    """Time of the round's end since the start of the job."""
    lasts_ns: int
    operations: int

    @property
    def per_second(self) -> float:
        return self.operations / self.lasts_ns * 1e9


Enough = Callable[[Sequence[Round]], bool]
"""Function of the rounds so far that returns whether the job may end."""


class Volume(Protocol):
    """A file or device under test. Engines implement this protocol as a class called with `(engine,)`."""

    def place(self) -> Path:
        """Returns the device, or a file or directory on it. The phase's traffic is that of this device."""

    def fits(self, size: int) -> None:
        """Raises Refused if the device is smaller than `size`. Writes nothing."""

    def fresh(self, size: int) -> str:
        """Makes the first `size` bytes unwritten again, as far as possible. Describes the method in words."""

    def lay(self, size: int) -> None:
        """Writes the first `size` bytes once and flushes them. Raises OSError."""

    def verify(self, size: int) -> str | None:
        """Writes the first `size` bytes and reads them back. Returns None, or a description of the wrong data. Raises
        Refused if the kernel or the file system lacks the method of access, and OSError for other failures."""

    def run(self, io: IO, limit_ns: int, round_ns: int, enough: Enough | None = None) -> Report:
        """Runs a job for `limit_ns`, or until `enough` returns true. The report's series has a point for each round
        of `round_ns`; 0 means no series."""

    def copy(self, how: str, block_size: int, size: int) -> Report:
        """Runs dd. `how`: 'plain', 'fdatasync' or 'direct' to write zeros, 'urandom' to write the bytes of
        /dev/urandom, or 'read', with the page cache emptied first."""

    def close(self) -> None: ...


KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
SUFFIXES = {"k": KIB, "m": MIB, "g": GIB}
SECTOR = 512


def sectors(text: str) -> Value:
    """Parses bytes, with k, m or g for powers of 1,024. The number must be a multiple of 512."""
    if text[-1:].lower() in SUFFIXES:
        number = text[:-1]
        factor = SUFFIXES[text[-1].lower()]
    else:
        number = text
        factor = 1
    try:
        size = int(number) * factor
    except ValueError:
        size = 0
    if size < SECTOR or size % SECTOR or size > 1 << 62:
        raise ValueError("expected bytes, a multiple of 512, such as 4096, 4k or 1m")
    return size


PARAMS = (
    Setting("area", sectors, 256 * MIB, "bytes of the file, or of the device from its start, that are used"),
    Setting("block_size", sectors, 4 * KIB, "bytes of a request: 4k, 1m"),
    Setting("depth", integer(1, 4096), 1, "requests in flight of each job"),
    Setting("jobs", integer(1, 256), 1, "processes that run the same job at the same time"),
    Setting("mix", integer(1, 99), 70, "reads of the mixed phases, in percent", phases=("seq-mixed", "rand-mixed")),
    Setting("warm", integer(1, 86_400), 10, "longest warm-up, in seconds", phases=("warm-up",)),
)

_QUICK = {"area": 64 * MIB, "block_size": (4 * KIB, MIB), "depth": (1, 16), "warm": 20}
_STANDARD = {"area": GIB, "block_size": (4 * KIB, 64 * KIB, MIB), "depth": (1, 4, 16, 64), "warm": 60}
_BLOCKS = tuple(size * KIB for size in (4, 16, 64, 256, 1_024))
_FULL = {"area": 8 * GIB, "block_size": _BLOCKS, "depth": (1, 2, 4, 8, 16, 32, 64), "warm": 1_800}
PRESETS = {
    "quick": Preset(_QUICK, samples=3, budget=1, timeout=300),
    "standard": Preset(_STANDARD, samples=5, budget=10, timeout=1_800),
    "full": Preset(_FULL, samples=5, budget=30, timeout=14_400),
}

COUNTED = "consistency of bytes, operations and histogram"
PARTS = ("submission", "completion")
MIXED = {READ: False, WRITE: True}


UNWRITTEN = "unwritten-read"
WARM_UP = "warm-up"
FLUSH = "flush"
RANDOM = (UNWRITTEN, WARM_UP, "rand-write", "rand-read", "rand-mixed")
_WAYS = ("fdatasync", "direct", "urandom", "read")
COPIES = {"dd": "plain", **{f"dd-{how}": how for how in _WAYS}}
WHOLE = ("whole-write", "whole-read")
"""Phases that pass over the area once, with a depth and jobs of their own."""
SINGLE = (FLUSH, *COPIES, *WHOLE)
"""Phases whose depth and jobs are their own: those of the parameters must be 1."""

_phase = partial(Phase, unit="op", checked=COUNTED, parts=PARTS, reported=True)
_dd = partial(Phase, unit="op", checked="how many bytes it copied", reported=True, metric="bandwidth")
_FLUSHED = ("writing", "flushing")
_RANDOM_READS = "{figure} random reads of {block_size:size} a second at depth {depth}, p99 {p99}"
PHASES = (
    _phase(UNWRITTEN, "read blocks at random that were never written", writes=False),
    _phase(WARM_UP, "write blocks at random that were never written, until the rate is steady", writes=True),
    _phase("seq-write", "write in order", writes=True, metric="bandwidth"),
    _phase("seq-read", "read in order", writes=False, metric="bandwidth", says="{range} read in sequence"),
    _phase("seq-mixed", "read and write in order", writes=True, kinds=MIXED, metric="bandwidth"),
    _phase("rand-write", "write at random", writes=True),
    _phase("rand-read", "read at random", writes=False, says=_RANDOM_READS),
    _phase("rand-mixed", "read and write at random", writes=True, kinds=MIXED),
    _phase(
        FLUSH,
        "write and fdatasync in turn, one request at a time",
        writes=True,
        parts=_FLUSHED,
        says="a flush takes {p50}",
    ),
    _dd("dd", "dd as people mostly run it: it ends when memory has the data", writes=True),
    _dd("dd-urandom", "the same with /dev/urandom as the source instead of /dev/zero", writes=True),
    _dd("dd-fdatasync", "dd conv=fdatasync: flushed once, at the end", writes=True),
    _dd("dd-direct", "dd oflag=direct: past the page cache, one request at a time", writes=True),
    _dd("dd-read", "dd of=/dev/null, with the page cache emptied first", writes=False),
    _phase("whole-write", "write all of the area once, by 32 jobs of depth 32", writes=True, metric="bandwidth"),
    _phase("whole-read", "read all of the area once, by 32 jobs of depth 32", writes=False, metric="bandwidth"),
)


class VolumeSuite(Suite):
    name = "volume"
    title = "a file or a device, read and written by fio; its warm-up, its flushes, and dd beside it"
    ports = ("volume",)
    engines = ("fio",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES


SUITE = VolumeSuite()
