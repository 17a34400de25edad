"""Where engines' data live while they are measured: a directory per run, gone with it, swept up if it was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dyno.model import UsageError

# Not a name that anyone else would give: what bears it and is not locked is removed.
PREFIX = "dyno-run-"
LOCK = ".dyno-run-lock"


def default_root() -> Path:
    """`$DYNO_WORK`, or dyno/work in the user's cache directory: on a disk, where /tmp often is not."""
    if named := os.environ.get("DYNO_WORK"):
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dyno" / "work"


@contextmanager
def directory(root: Path) -> Iterator[Path]:
    """A new directory under `root`, removed at the end; first removes those of runs that were killed.

    A run holds a lock on its directory as long as it lives, so that only dead ones' are swept.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        sweep(root)
        made = Path(tempfile.mkdtemp(prefix="dyno-new-", dir=root))
        lock = (made / LOCK).open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Named so that a sweep sees it only now that it is locked.
        path = made.rename(root / made.name.replace("dyno-new-", PREFIX))
    except OSError as error:
        raise UsageError(f"can't use {root} as the work directory: {error.strerror}") from None
    with lock:
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def sweep(root: Path) -> list[Path]:
    """Removes the directories whose run is dead, and returns them."""
    swept = []
    for path in root.glob(PREFIX + "*"):
        with suppress(OSError), (path / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
            swept.append(path)
    return swept
