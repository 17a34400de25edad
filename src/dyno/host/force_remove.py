"""Removes a directory of Dyno's despite missing permissions, or file systems mounted in it.

It never touches files on a mounted file system.
"""

import ctypes
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from dyno.host.procfs import mounts

_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8


def remove(path: Path) -> str | None:
    """Removes a directory with all its contents.

    Returns None if it is gone or did not exist. Otherwise returns why it still exists and how to remove it, in one
    line.
    """
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
        _make_removable(path)
        for directory, directories, _ in os.walk(path):
            for name in directories:
                _make_removable(Path(directory, name))
    try:
        shutil.rmtree(path)
    except OSError as error:
        as_root = "as root, "
        if os.geteuid() == 0:
            as_root = ""
        remedy = f"{as_root}chattr -R -ia {path} && rm -r {path}"
        return f"{path} can't be removed ({error.strerror}: {error.filename}); {remedy}"
    return None


def unmount(path: Path) -> list[Path]:
    """Unmounts the file systems mounted at a directory or below it, the latest first.

    Returns the mount points that remain because this process may not unmount them.
    """
    mounted = _find_mounts(path)
    for point in reversed(mounted):
        # MNT_DETACH unmounts at once, even if the file system is in use.
        ctypes.CDLL(None).umount2(os.fsencode(point), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    if mounted:
        return _find_mounts(path)
    return []


def _find_mounts(path: Path) -> list[Path]:
    """Returns the mount points at a directory or below it, in mount order."""
    top = Path(os.path.realpath(path.parent), path.name)
    points = [Path(mount.point) for mount in mounts(errors="surrogateescape")]
    return [point for point in points if point.is_relative_to(top)]


def _make_removable(path: Path) -> None:
    """Gives the owner all rights to a directory."""
    with suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            path.chmod(0o700)
