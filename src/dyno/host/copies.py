"""Copies of sealed directories. They share blocks with the original if the file system supports it, and holes remain
holes.
"""

import fcntl
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from dyno.host.filesystem import size_on_disk
from dyno.host.pagecache import extents

_FICLONE = 0x40049409
_CHUNK = 1 << 20
SPARE_BYTES = 1 << 30
"""Free space that must remain after copying."""
WRITABLE = 0o222


def seal(source: Path, target: Path) -> bool:
    """Moves a directory to a place from where it is only copied, and makes its files read-only.

    Returns False and does nothing if it contains anything but files and directories, or if there is no room for
    copies.
    """
    paths = list(source.rglob("*"))
    is_plain = all(path.is_dir() or (path.is_file() and not path.is_symlink()) for path in paths)
    size = size_on_disk(paths) or 0
    target.parent.mkdir(parents=True, exist_ok=True)
    # Room for twice the size: a trial's copy, and the data that the engine then writes.
    if not is_plain or shutil.disk_usage(target.parent).free < 2 * size + SPARE_BYTES:
        return False
    for path in paths:
        if path.is_file():
            path.chmod(path.stat().st_mode & ~WRITABLE)
    source.rename(target)
    return True


def copy(source: Path, target: Path) -> None:
    """Copies a sealed directory into an existing empty one, with writable files."""
    for path in sorted(source.rglob("*")):
        at = target / path.relative_to(source)
        if path.is_dir():
            at.mkdir()
            continue
        with path.open("rb") as original, at.open("xb") as copied:
            if not _clone(original.fileno(), copied.fileno()):
                _copy_extents(original.fileno(), copied.fileno())
            os.fchmod(copied.fileno(), os.fstat(original.fileno()).st_mode | 0o200)


def _clone(source: int, target: int) -> bool:
    """Shares the blocks of a file. Returns False if the file system doesn't support that."""
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.ioctl(target, _FICLONE, source)
            return True
    return False


def _copy_extents(source: int, target: int) -> None:
    """Copies the data between holes, and the length of the file."""
    size = os.fstat(source).st_size
    for at, length in extents(source, size):
        end = at + length
        while at < end and (done := os.pwrite(target, os.pread(source, min(end - at, _CHUNK), at), at)):
            at += done
    os.ftruncate(target, size)
