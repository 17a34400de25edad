"""Opens what is to be read: regular files alone, of up to a size. A pipe would be waited for, a device has no end."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dyno.contracts.model import UsageError

MIB = 1 << 20


@contextmanager
def opened(path: Path, most: int) -> Iterator[BinaryIO]:
    """A regular file of at most `most` bytes. Raises UsageError for what is none, is larger or can't be read."""
    try:
        with _opened(path, most) as file:
            yield file
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from None


def _opened(path: Path, most: int) -> BinaryIO:
    try:
        # Looked at before it is opened: opening a pipe waits, and opening a device may do things.
        about = path.stat()
    except ValueError as error:
        # A name with a zero byte in it.
        raise UsageError(f"can't read {str(path)!r}: {error}") from None
    if not stat.S_ISREG(about.st_mode):
        raise UsageError(f"can't read {path}: {_kind(about.st_mode)}")
    if about.st_size > most:
        raise UsageError(f"can't read {path}: it has {about.st_size / MIB:,.0f} MiB, of {most // MIB:,} at most")
    return path.open("rb")


def text(path: Path, most: int) -> str:
    """All of such a file, which is UTF-8. Raises UsageError, and UnicodeDecodeError."""
    with opened(path, most) as file:
        return file.read(most).decode()


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return os.strerror(errno.EISDIR)
    named = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return f"it is {named.get(stat.S_IFMT(mode), 'something else')}, not a file"
