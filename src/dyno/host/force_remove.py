"""Takes a directory of Dyno's away, whatever was done to keep it there: rights that were taken from it, flags that
make files immutable, file systems that were mounted in it. What is on such a file system is never touched."""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import shutil
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path

_GETFLAGS, _SETFLAGS = 0x80086601, 0x40086602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of ioctl_iflags(2), where a long has 8 bytes."""
_KEPT = 0x10 | 0x20
"""FS_IMMUTABLE_FL and FS_APPEND_FL: what bears them can't be removed, by nobody."""
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8


def remove(path: Path) -> str | None:
    """Removes a directory with all that is in it; None if it is gone, or was not there. Else why it is still there
    and what would take it away, in one line."""
    if not os.path.lexists(path):
        return None
    if left := unmount(path):
        return f"{path} can't be removed: a file system is mounted at {left[0]}; unmount it and remove the directory"
    with suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            return None
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return None
        _loosen(path)
    try:
        shutil.rmtree(path)
    except OSError as error:
        as_root = "" if os.geteuid() == 0 else "as root, "
        remedy = f"{as_root}chattr -R -ia {path} && rm -r {path}"
        return f"{path} can't be removed ({error.strerror}: {error.filename}); {remedy}"
    return None


def unmount(path: Path) -> list[Path]:
    """Unmounts the file systems that are mounted at a directory or below, the last one first. Returns those that are
    still mounted: none, where this process may unmount them."""
    found = _mounted(path)
    for mounted in reversed(found):
        # Detached at once, though somebody may be in it: it is not in the way any more.
        ctypes.CDLL(None).umount2(os.fsencode(mounted), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    return _mounted(path) if found else []


def _mounted(path: Path) -> list[Path]:
    """Where file systems are mounted at a directory or below, in their order. Only Linux tells."""
    if sys.platform != "linux":
        return []
    top, found = Path(os.path.realpath(path.parent), path.name), list[Path]()
    # As bytes: a name may have any in it but a line's end and a space, which are told as octal numbers.
    for line in Path("/proc/self/mountinfo").read_bytes().split(b"\n")[:-1]:
        name = re.sub(rb"\\([0-7]{3})", lambda number: bytes([int(number[1], 8)]), line.split(b" ")[4])
        found.append(Path(os.fsdecode(name)))
    return [place for place in found if place.is_relative_to(top)]


def _loosen(top: Path) -> None:
    """Takes from all that is below what keeps its owner, or root, from removing it."""
    _open_up(top)
    for place, directories, files in os.walk(top):
        for name in (*directories, *files):
            _open_up(Path(place, name))


def _open_up(path: Path) -> None:
    with suppress(OSError):
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind) or stat.S_ISREG(kind):
            _clear_flags(path)
        if stat.S_ISDIR(kind):
            path.chmod(0o700)


def _clear_flags(path: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            # The kernel writes and reads an int, whatever the numbers say of a long.
            (flags,) = struct.unpack("i4x", fcntl.ioctl(descriptor, _GETFLAGS, bytes(8)))
            if flags & _KEPT:
                fcntl.ioctl(descriptor, _SETFLAGS, struct.pack("i4x", flags & ~_KEPT))
        finally:
            os.close(descriptor)
