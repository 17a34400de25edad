"""Paths of Dyno's directories for cached data and state. This module creates no directories."""

import os
from contextlib import suppress
from pathlib import Path

HOMELESS = Path("/nonexistent")
"""Debian's home directory for users without one."""


def cache() -> Path:
    """Returns `dyno` in the user's cache directory, which is on a disk, unlike /tmp on many systems.

    For root it is in /var/cache, since servers that refuse to run as root can't enter root's home.
    """
    return _directory("XDG_CACHE_HOME", Path("/var/cache"), ".cache")


def state() -> Path:
    """Returns `dyno` in the user's state directory, for data that must survive the deletion of a cache."""
    return _directory("XDG_STATE_HOME", Path("/var/lib"), ".local/state")


def _directory(variable: str, of_root: Path, below_home: str) -> Path:
    if named := os.environ.get(variable):
        return Path(named) / "dyno"
    if os.geteuid() == 0:
        return of_root / "dyno"
    home = HOMELESS
    with suppress(RuntimeError):
        home = Path.home()
    return home / below_home / "dyno"


def trouble(error: OSError) -> str:
    """Returns the system's message for an error, preceded by the name of the file (if any)."""
    message = error.strerror or str(error)
    if error.filename:
        return f"{error.filename}: {message}"
    return message
