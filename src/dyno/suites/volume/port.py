"""The port `volume`: I/O on a file or a device, done and reported by an outside tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from dyno.contracts.suite import Report

READ, WRITE = "read", "write"


class IO(NamedTuple):
    """A job for the tool. Sizes in bytes."""

    pattern: str
    """In fio's terms: read, write, rw, randread, randwrite or randrw."""
    block_size: int
    size: int
    """Of the file, or of the part of the device that is used, from its start."""
    depth: int = 1
    """Requests in flight per job."""
    jobs: int = 1
    read_percent: int = 100
    """Share of reads in a mixed pattern."""
    flush: bool = False
    """Writes through the page cache, with fdatasync(2) after each."""
    seed: int = 1

    @property
    def mixed(self) -> bool:
        return self.pattern.endswith("rw")


class Round(NamedTuple):
    """One round of a longer job."""

    ends_ns: int
    """Time since the start of the job."""
    lasts_ns: int
    operations: int

    @property
    def per_second(self) -> float:
        return self.operations / self.lasts_ns * 1e9


Enough = Callable[[Sequence[Round]], bool]
"""Called with the rounds so far: whether the job may end."""


class Volume(Protocol):
    """Engines implement it as a class called with `(engine)`."""

    def place(self) -> Path:
        """The device, or a file or directory on it: its traffic is the phase's."""

    def fits(self, size: int) -> None:
        """Raises Refused if the device is smaller. Writes nothing."""

    def fresh(self, size: int) -> str:
        """Brings the first `size` bytes into the state of never having been written, as far as possible. Returns how,
        in words."""

    def lay(self, size: int) -> None:
        """Writes the first `size` bytes once and flushes them. Raises OSError."""

    def verify(self, size: int) -> str | None:
        """Writes the first `size` bytes and reads them back; returns what was read wrong, or None. Raises Refused if
        the kernel or the file system refuses the way of access, and OSError for any other failure."""

    def run(self, io: IO, limit_ns: int, round_ns: int, enough: Enough | None = None) -> Report:
        """Runs a job for that long, or until it is `enough`. The report's series has a point per round of `round_ns`;
        0 for none."""

    def copy(self, how: str, block_size: int, size: int) -> Report:
        """Runs dd, which writes zeros; `how`: 'plain', 'fdatasync' or 'direct'."""

    def close(self) -> None:
        return None
