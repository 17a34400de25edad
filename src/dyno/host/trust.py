"""Checks that files and directories in shared places were written by no other user.

Dyno reads from such files which processes to kill and which directories to remove. Another user could have planted a
file.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_own_directory(path: Path) -> bool:
    """Returns whether `path` is a directory that belongs to this user. Symbolic links don't count."""
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return False


def is_private_directory(path: Path) -> bool:
    """Returns whether `path` is a directory of this user in which no other user can create files."""
    with suppress(OSError):
        return is_own_directory(path) and not path.lstat().st_mode & _OTHERS_WRITE
    return False


def make_private_directory(path: Path, mode: int) -> bool:
    """Creates the directory with that mode, or sets the mode of an existing directory of this user.

    Returns False if the name belongs to another user's directory or to something else.
    """
    try:
        with suppress(FileExistsError):
            path.mkdir(mode)
        # Use a descriptor: between two calls by name, another user could replace the directory by a link.
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return False
        os.fchmod(descriptor, mode)
        return True
    finally:
        os.close(descriptor)


def write(path: Path, text: str) -> None:
    """Writes a file for `read`, replacing any existing file of that name. Never writes through a symbolic link."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def read(path: Path) -> str | None:
    """Returns the text of a file that only this user can have written; None for a missing or any other file."""
    with suppress(OSError, ValueError):
        # If the name belongs to a pipe, the open would block without O_NONBLOCK.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor) as file:
            status = os.fstat(descriptor)
            # Refuse hard links: with one, another user can give this user's file a name of their choice.
            own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
            if own and not status.st_mode & _OTHERS_WRITE:
                return file.read()
    return None
