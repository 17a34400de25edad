"""Files and directories that no other user can have written, in places that several users share.

What Dyno reads there names processes to kill and directories to remove. Another user could have planted it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_own_directory(path: Path) -> bool:
    """Returns whether `path` is a directory of this user's. A symbolic link is none."""
    with suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return False


def is_private_directory(path: Path) -> bool:
    """Returns whether `path` is a directory of this user's in which nobody else can create files."""
    with suppress(OSError):
        return is_own_directory(path) and not path.lstat().st_mode & _OTHERS_WRITE
    return False


def make_private_directory(path: Path, mode: int) -> bool:
    """Creates the directory with that mode, or sets the mode of one that exists. Returns False if another user's
    directory, or something else, has that name."""
    try:
        with suppress(FileExistsError):
            path.mkdir(mode)
        # By descriptor: another user may exchange what has that name for a link between two calls.
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
    """Writes a file that `read` returns, in place of what has that name. Never through a symbolic link."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def read(path: Path) -> str | None:
    """Returns the text of a file that nobody but this user can have written; None for any other, and for none."""
    with suppress(OSError, ValueError):
        # A pipe in its place would block without O_NONBLOCK.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor) as file:
            status = os.fstat(descriptor)
            # With a second hard link, another user can put this user's file under a name of their choice.
            own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
            return file.read() if own and not status.st_mode & _OTHERS_WRITE else None
    return None
