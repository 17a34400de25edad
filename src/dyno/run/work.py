"""Where engines' data live while they are measured: a directory per run, gone with it. What a killed run left, its
servers too, is swept up."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from dyno import places
from dyno.host import confine
from dyno.model import UsageError
from dyno.servers import strays

# Not a name that anyone else would give: what bears it and is not locked is removed.
PREFIX = "dyno-run-"
LOCK = ".dyno-run-lock"


def default_root() -> Path:
    """`$DYNO_WORK`, or `work` in Dyno's cache directory."""
    named = os.environ.get("DYNO_WORK")
    return Path(named) if named else places.cache() / "work"


@contextmanager
def directory(root: Path) -> Iterator[Path]:
    """A new directory under `root`, removed at the end; first removes those of runs that were killed.

    A run holds a lock on its directory as long as it lives, so that only dead ones' are swept.
    """
    named = root
    try:
        # Those who are told of it have working directories of their own.
        root = root.absolute()
        root.mkdir(parents=True, exist_ok=True)
        sweep(root)
        made = Path(tempfile.mkdtemp(prefix="dyno-new-", dir=root))
        lock = (made / LOCK).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Named so that a sweep sees it only now that it is locked.
        path = made.rename(root / made.name.replace("dyno-new-", PREFIX))
        if os.geteuid() == 0:
            # A server that root starts runs as another user, who has to come by.
            path.chmod(0o711)
    except FileExistsError:
        raise UsageError(f"can't use {named} as the work directory: it is none; --work names another") from None
    except OSError as error:
        raise UsageError(f"can't use {named} as the work directory: {error.strerror}; --work names another") from None
    with lock:
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def sweep(root: Path) -> list[Path]:
    """Removes the directories whose run is dead, ends the servers that were left in them, and removes the control
    groups that are recorded there; returns them."""
    swept = list(dead(root))
    for path in swept:
        strays.clear(path)
        confine.clear(path)
        shutil.rmtree(path, ignore_errors=True)
    return swept


def dead(root: Path) -> Iterator[Path]:
    """The directories whose run is no more."""
    for path in root.glob(PREFIX + "*"):
        with suppress(OSError), (path / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path


def left_behind(root: Path) -> dict[str, list[str]]:
    """What killed runs left under `root`, for the next run to take away: their directories, and their servers that
    still run, as 'redis-server 4711'."""
    directories = list(dead(root))
    servers: list[str] = []
    for process in (process for path in directories for process in strays.recorded(path)):
        with suppress(psutil.Error):
            servers.append(f"{process.name()} {process.pid}")
    return {"directories": [str(path) for path in directories], "servers": servers}
