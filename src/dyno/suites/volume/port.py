"""The port `volume`: what a tool does to a file or a device, and tells of it. No tool may be named here but by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from dyno.contracts.suite import Report

READ, WRITE = "read", "write"


class IO(NamedTuple):
    """What is to be done. Sizes in bytes."""

    pattern: str
    """As fio calls it: read, write, rw, and with rand before it."""
    block_size: int
    size: int
    """Of the file, or of the device's begin, within which it stays."""
    depth: int = 1
    """Requests in flight of each job."""
    jobs: int = 1
    read_percent: int = 100
    """Of a mixed pattern."""
    flush: bool = False
    """Each write through the page cache, and fdatasync(2) after it."""
    seed: int = 1

    @property
    def mixed(self) -> bool:
        return self.pattern.endswith("rw")


class Round(NamedTuple):
    """What was done in one round of a longer job."""

    ends_ns: int
    """Since the job began."""
    lasts_ns: int
    operations: int

    @property
    def per_second(self) -> float:
        return self.operations / self.lasts_ns * 1e9


Enough = Callable[[Sequence[Round]], bool]
"""Of the rounds so far, whether the job may end."""


class Volume(Protocol):
    """Engines implement it as a class called with `(engine)`."""

    def place(self) -> Path:
        """On the device whose traffic it makes, or that device."""

    def fits(self, size: int) -> None:
        """Raises Refused where the device is smaller. Writes nothing."""

    def fresh(self, size: int) -> str:
        """Makes that many bytes of it such as were never written. How, in words."""

    def lay(self, size: int) -> None:
        """Writes them all, once, and flushes them. Raises OSError where that can't be done."""

    def verify(self, size: int) -> str | None:
        """Writes them and reads them back; what was read wrong, or None. Raises Refused where the kernel or the file
        system refuses the way of asking, and OSError for any other failure."""

    def run(self, io: IO, limit_ns: int, round_ns: int, enough: Enough | None = None) -> Report:
        """Does it for that long, or until it is enough; with a round, its series is by that."""

    def copy(self, how: str, block_size: int, size: int) -> Report:
        """dd, writing zeros: 'plain', 'fdatasync' or 'direct'."""

    def close(self) -> None: ...
