"""Copies of a directory of files, as fast as the file system can: it may share the blocks until one of both writes.

Holes stay holes. A copy is either whole and in its place, or not there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from dyno.host.filesystem import size_on_disk

_FICLONE = 0x40049409
_CHUNK = 1 << 30
SPARE_BYTES = 1 << 30
"""Of a file system, what no copy may take."""
WRITABLE = 0o222


def seal(source: Path, target: Path) -> bool:
    """Moves a directory to where it is only copied from, read-only; False where that can't be.

    It can't where it has other than files and directories, or where there is no room for copies of it.
    """
    paths = list(source.rglob("*"))
    plain = all(path.is_dir() or (path.is_file() and not path.is_symlink()) for path in paths)
    taken = size_on_disk(paths) or 0
    target.parent.mkdir(parents=True, exist_ok=True)
    # Twice: the copy of this trial, and what the engine then makes of it.
    if not plain or shutil.disk_usage(target.parent).free < 2 * taken + SPARE_BYTES:
        return False
    for path in paths:
        if path.is_file():
            path.chmod(path.stat().st_mode & ~WRITABLE)
    source.rename(target)
    return True


def copy(source: Path, target: Path) -> None:
    """Copies a sealed directory to one that is empty; its files can be written to."""
    for path in sorted(source.rglob("*")):
        at = target / path.relative_to(source)
        if path.is_dir():
            at.mkdir()
        else:
            _file(path, at)


def _file(source: Path, target: Path) -> None:
    with source.open("rb") as whence, target.open("xb") as whither:
        if not _cloned(whence.fileno(), whither.fileno()):
            _extents(whence.fileno(), whither.fileno())
        os.fchmod(whither.fileno(), os.fstat(whence.fileno()).st_mode | 0o200)


def _cloned(source: int, target: int) -> bool:
    """Whether the file system could share the blocks."""
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.ioctl(target, _FICLONE, source)
            return True
    return False


def _extents(source: int, target: int) -> None:
    """Only what is written, and the length."""
    size, at = os.fstat(source).st_size, 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            # Nothing but a hole up to the end.
            break
        end = os.lseek(source, at, os.SEEK_HOLE)
        _bytes(source, target, at, end)
        at = end
    os.ftruncate(target, size)


def _bytes(source: int, target: int, at: int, end: int) -> None:
    while at < end:
        count = min(end - at, _CHUNK)
        try:
            if sys.platform != "linux":
                raise OSError(errno.ENOSYS, "")
            done = os.copy_file_range(source, target, count, at, at)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL):
                raise
            done = os.pwrite(target, os.pread(source, min(count, 1 << 20), at), at)
        if not done:
            return
        at += done
