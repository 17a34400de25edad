"""Notices what a user's function does to its process, which would end in wrong figures or harm Dyno's loop."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dyno.contracts.model import Caveat

STANDARD = ("standard input", "standard output", "standard error")
OUTPUT_BYTES = 1 << 20
PATIENCE_S = 0.05
"""How long a child that came back may take to report it."""


class Guard:
    """Compares the state of the process with that at the guard's creation. It must be created once in a process: its
    fork handler stays registered, and holds for processes that are forked from it."""

    def __init__(self) -> None:
        self._children_came_back = mmap.mmap(-1, 1)
        self._forks, self._waited = 0, False
        self._active = False
        self._files = [_file(descriptor) for descriptor in range(len(STANDARD))]
        self._begin()
        os.register_at_fork(after_in_parent=self._count_fork)

    def _begin(self) -> None:
        self._pid, self._directory = os.getpid(), Path.cwd()
        self._threads, self._output = threading.active_count(), _size()

    @contextmanager
    def watch_block(self) -> Iterator[None]:
        """Watches the block, in which the user's code runs. A child that this code forked ends with the block."""
        self._active = True
        self._begin()
        try:
            yield
        finally:
            self._active = False
            self._end_child()

    def _count_fork(self) -> None:
        self._forks += self._active

    def _end_child(self) -> None:
        """Ends this process if it is a child that the user's code forked, and that came back to Dyno."""
        if os.getpid() != self._pid:
            self._children_came_back[0] = 1
            os._exit(0)

    def find_fork(self) -> str | None:
        """Returns what is wrong if a child of the function has returned from it. Ends this process if it is such a
        child."""
        self._end_child()
        if self._forks and not self._waited:
            # Once, after the first calls: the next ones are more, and each child would fork again in each of them.
            self._waited = True
            time.sleep(PATIENCE_S)
        if not self._children_came_back[0]:
            return None
        return "it forks, and the child returns from the function too: end a child with os._exit"

    def find_fault(self) -> str | None:
        """Returns what the function did that makes its figures void; None if nothing."""
        if why := self.find_fork():
            return why
        for descriptor, (name, before) in enumerate(zip(STANDARD, self._files, strict=True)):
            if (now := _file(descriptor)) != before:
                how = "replaced"
                if now is None:
                    how = "closed"
                return f"it {how} descriptor {descriptor}, {name}"
        directory = None
        with suppress(OSError):
            directory = Path.cwd()
        if directory != self._directory:
            return f"it changed the current directory from {self._directory} to {directory or 'one that is gone'}"
        return None

    def caveats(self) -> Iterator[Caveat]:
        if (threads := threading.active_count() - self._threads) > 0:
            yield Caveat("threads", f"left {threads} thread{'s' * (threads > 1)} running, which may share its cores")
        if (written := _size() - self._output) > OUTPUT_BYTES:
            yield Caveat("output", f"wrote {written >> 20} MiB to its output, which is a file here")


def _file(descriptor: int) -> tuple[int, int] | None:
    """Returns the file of a descriptor, by device and inode; None if it is closed."""
    try:
        about = os.fstat(descriptor)
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _size() -> int:
    with suppress(OSError):
        return os.fstat(1).st_size
    return 0
