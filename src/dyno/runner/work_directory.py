"""The directory in which a run's engines keep their data. It is removed at the end of the run. The next run removes
the directories of killed runs, and their servers."""

import fcntl
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from dyno.contracts.model import UsageError
from dyno.contracts.sanitize import sanitize
from dyno.host import confine, trust
from dyno.host import directories as host_directories
from dyno.host.force_remove import remove, unmount
from dyno.servers import leftover_processes

PREFIX = "dyno-run-"
"""Name prefix of run directories. An unlocked directory with it is removed, because only Dyno uses the prefix."""
NEW, NEW_SECONDS = "dyno-new-", 60
"""Name prefix of directories that are not locked yet, and the age from which they belong to killed runs."""
LOCK = ".dyno-run-lock"
MEMORY = Path("/dev/shm")
# A server that root starts runs as another user, who needs to traverse the directory.
_MODE = 0o711 if os.geteuid() == 0 else 0o700


def default_root() -> Path:
    """Returns `$DYNO_WORK`, or `work` in Dyno's cache directory."""
    return Path(os.environ.get("DYNO_WORK") or host_directories.cache() / "work")


def fast_root(root: Path) -> Path:
    """Returns this user's own directory in memory, for short-lived data; `root` if it can't be created."""
    fast = MEMORY / f"dyno-{os.geteuid()}"
    # Anybody may create files in /dev/shm, so another user may have taken the name.
    if trust.make_private_directory(fast, _MODE):
        return fast
    return root


class WorkDirectory:
    """A run's directory. It is locked while the run lives, so that a sweep removes only directories of dead runs."""

    def __init__(self, root: Path) -> None:
        self.path, self._lock = _create(root)

    def mend(self) -> None:
        """Restores the directory if an engine has removed it or changed its permissions. Raises OSError."""
        with suppress(OSError):
            if not self.path.is_symlink():
                self.path.chmod(_MODE)
            if os.path.samestat(os.fstat(self._lock.fileno()), (self.path / LOCK).lstat()):
                return
        remove(self.path)
        path, self._lock = _create(self.path.parent)
        path.rename(self.path)

    def close(self) -> str | None:
        """Removes the directory. Returns why it could not be removed; None if it was removed."""
        why = _remove(self.path)
        self._lock.close()
        return why


def _remove(path: Path) -> str | None:
    """Removes a run's directory, its lock file last, so that the next run finds it if this process is killed."""
    with suppress(OSError):
        if not path.is_symlink() and not unmount(path):
            for child in path.iterdir():
                if child.name != LOCK:
                    remove(child)
    return remove(path)


def _create(root: Path) -> tuple[Path, IO[str]]:
    root.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=NEW, dir=root))
    lock = (path / LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    path.chmod(_MODE)
    # Renamed after it was locked: a sweep removes unlocked directories of the final name.
    return path.rename(root / path.name.replace(NEW, PREFIX)), lock


@contextmanager
def directory(root: Path, warn: Callable[[str], object]) -> Iterator[WorkDirectory]:
    """Creates a new directory under `root`, and removes it at the end of the block. First removes directories of
    killed runs. `warn` receives a line for each directory that can't be removed."""
    try:
        # An absolute path, because workers have other working directories.
        sweep(root.absolute(), warn)
        work = WorkDirectory(root.absolute())
    except OSError as error:
        why = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise UsageError(f"can't use {root} as the work directory: {why}; --work names another") from None
    try:
        yield work
    finally:
        if why := work.close():
            warn(sanitize(why, keep=""))


def sweep(root: Path, warn: Callable[[str], object]) -> list[Path]:
    """Removes this user's directories of dead runs, with the servers and control groups that are recorded in them.
    Returns the directories."""
    for path in root.glob(PREFIX + "*"):
        if trust.is_own_directory(path) and not trust.is_private_directory(path):
            remedy = f"to remove it: rm -r {shlex.quote(str(path))}"
            stays = f"{path} stays, since other users may write to it; {remedy}"
            warn(sanitize(stays, keep=""))
    swept = list(find_dead(root))
    for path in swept:
        unmount(path)
        leftover_processes.clear(path)
        confine.clear(path)
        if why := _remove(path):
            warn(sanitize(why, keep=""))
    return swept


def find_dead(root: Path) -> Iterator[Path]:
    """Yields this user's directories of dead runs. Directories of other users are skipped, because users may share
    the work directory."""
    for path in (*root.glob(PREFIX + "*"), *root.glob(NEW + "*")):
        if trust.is_private_directory(path) and not _is_new(path):
            # An empty directory belongs to a run that was killed before it created the lock, or after it removed it.
            with suppress(OSError), (path / LOCK).open("r" if any(path.iterdir()) else "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path


def _is_new(path: Path) -> bool:
    """Returns whether a living run may be about to lock the directory."""
    return path.name.startswith(NEW) and time.time() - path.stat().st_mtime < NEW_SECONDS


def left_behind(root: Path) -> dict[str, list[str]]:
    """Returns the directories that killed runs left under `root`, and the servers of these runs that still run, as
    'redis-server 4711'. The next run removes both."""
    directories, servers = list(find_dead(root)), list[str]()
    for process in (process for path in directories for process in leftover_processes.find_recorded(path)):
        with suppress(psutil.Error):
            servers.append(sanitize(f"{process.name()} {process.pid}", keep=""))
    return {"directories": [sanitize(str(path), keep="") for path in directories], "servers": servers}
