"""Where engines' data live while they are measured: a directory per run, gone with it. What a killed run left, its
servers too, is swept up."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from dyno.contracts.model import UsageError
from dyno.host import confine, trust
from dyno.host import directories as places
from dyno.host.force_remove import remove, unmount
from dyno.servers import leftover_processes
from dyno.text.sanitize import sanitize

# Not a name that anyone else would give: what bears it and is not locked is removed.
PREFIX = "dyno-run-"
LOCK = ".dyno-run-lock"
MEMORY = Path("/dev/shm")
# A server that root starts runs as another user, who has to come by.
_MODE = 0o711 if os.geteuid() == 0 else 0o700


def default_root() -> Path:
    """`$DYNO_WORK`, or `work` in Dyno's cache directory."""
    named = os.environ.get("DYNO_WORK")
    return Path(named) if named else places.cache() / "work"


def fast_root(root: Path) -> Path:
    """Returns a directory of this user's in memory, for short-lived data; `root` if none can be created there."""
    fast = MEMORY / f"dyno-{os.geteuid()}"
    # Everybody may create files in /dev/shm: another user may have taken the name.
    return fast if trust.make_private_directory(fast, _MODE) else root


class WorkDirectory:
    """A run's directory. It is locked as long as the run lives, so that only dead ones' are swept."""

    def __init__(self, root: Path) -> None:
        self.path, self._lock = _made(root)

    def mend(self) -> None:
        """Makes it again where an engine has taken it away, or the right to use it. Raises OSError."""
        with suppress(OSError):
            if not self.path.is_symlink():
                self.path.chmod(_MODE)
            if os.path.samestat(os.fstat(self._lock.fileno()), (self.path / LOCK).lstat()):
                return
        remove(self.path)
        made, self._lock = _made(self.path.parent)
        made.rename(self.path)

    def close(self) -> str | None:
        """Removes it; why it is still there, if it is."""
        left = remove(self.path)
        self._lock.close()
        return left


def _made(root: Path) -> tuple[Path, IO[str]]:
    root.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="dyno-new-", dir=root))
    lock = (made / LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    made.chmod(_MODE)
    # Named so that a sweep sees it only now that it is locked.
    return made.rename(root / made.name.replace("dyno-new-", PREFIX)), lock


@contextmanager
def directory(root: Path, tell: Callable[[str], object]) -> Iterator[WorkDirectory]:
    """A new directory under `root`, removed at the end; first removes those of runs that were killed. What can't be
    removed is told."""
    named = root
    try:
        # Those who are told of it have working directories of their own.
        root = root.absolute()
        sweep(root, tell)
        place = WorkDirectory(root)
    except FileExistsError:
        raise UsageError(f"can't use {named} as the work directory: it is none; --work names another") from None
    except OSError as error:
        raise UsageError(f"can't use {named} as the work directory: {error.strerror}; --work names another") from None
    try:
        yield place
    finally:
        if left := place.close():
            tell(sanitize(left, keep=""))


def sweep(root: Path, tell: Callable[[str], object]) -> list[Path]:
    """Removes the directories whose run is dead, ends the servers that were left in them, and removes the control
    groups that are recorded there; returns them. What can't be removed is told. Other users' are left alone."""
    for path in root.glob(PREFIX + "*"):
        if trust.is_own_directory(path) and not trust.is_private_directory(path):
            tell(
                sanitize(f"{path} stays, since other users may write to it: rm -r {path} if it is of no use", keep="")
            )
    swept = list(dead(root))
    for path in swept:
        unmount(path)
        leftover_processes.clear(path)
        confine.clear(path)
        if left := remove(path):
            tell(sanitize(left, keep=""))
    return swept


def dead(root: Path) -> Iterator[Path]:
    """Yields this user's directories whose run has ended. In a shared work directory there may be others' too."""
    for path in root.glob(PREFIX + "*"):
        if trust.is_private_directory(path):
            with suppress(OSError), (path / LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path


def left_behind(root: Path) -> dict[str, list[str]]:
    """What killed runs left under `root`, for the next run to take away: their directories, and their servers that
    still run, as 'redis-server 4711'."""
    directories = list(dead(root))
    servers: list[str] = []
    for process in (process for path in directories for process in leftover_processes.recorded(path)):
        with suppress(psutil.Error):
            servers.append(sanitize(f"{process.name()} {process.pid}", keep=""))
    return {"directories": [sanitize(str(path), keep="") for path in directories], "servers": servers}
