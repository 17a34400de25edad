"""Prevents two processes from writing one run file at the same time, which would execute every trial twice.

The lock is on the file itself, so it leaves no other file behind. The kernel releases it when the process ends, for
whatever reason.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from dyno.contracts.model import UsageError


class RunFileLost(OSError):
    """The run file was removed, moved or replaced during its run."""


class Lock:
    """Exclusive use of a run file, until `close` or the end of the process. A context manager."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def take(self, path: Path) -> None:
        """Locks the file. Does nothing if the file is missing or can't be read. Raises UsageError if another process
        has locked it."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                return
            self.add(path, descriptor)
            if self._is_at(path):
                return
            # The file was replaced between opening and locking, so the lock is on a file without a name.
            os.close(self._descriptors.pop())

    def add(self, path: Path, descriptor: int) -> None:
        """Locks the open file, which is or will be at `path`, and takes over its descriptor. Raises UsageError if
        another process has locked it."""
        # On a file system without locks (an OSError other than BlockingIOError), the file is used without a lock.
        try:
            with suppress(OSError):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise UsageError(
                        f"{path}: another dyno is writing to it; wait until it ends, or name another file with -o"
                    ) from None
        except UsageError:
            os.close(descriptor)
            raise
        self._descriptors.append(descriptor)

    def check(self, path: Path) -> None:
        """Raises RunFileLost if the locked file is no longer at `path`."""
        if self._descriptors and not self._is_at(path):
            raise RunFileLost(errno.ENOENT, "removed, moved or replaced during the run", str(path))

    def _is_at(self, path: Path) -> bool:
        with suppress(OSError):
            return os.path.samestat(os.fstat(self._descriptors[-1]), path.stat())
        return False
