"""Where Dyno keeps what it was told to get or to make, and what is wrong with a place. Nothing is made here."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

HOMELESS = Path("/nonexistent")
"""The home of a user who has none, as Debian calls it: nothing is there, and nothing can be made."""


def cache() -> Path:
    """`dyno` in the user's cache directory: on a disk, where /tmp often is not.

    That of root is in /var/cache: servers that refuse to run as root can't enter root's home.
    """
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named) / "dyno"
    if os.geteuid() == 0:
        return Path("/var/cache/dyno")
    with suppress(RuntimeError):
        return Path.home() / ".cache" / "dyno"
    return HOMELESS / ".cache" / "dyno"


def state() -> Path:
    """`dyno` in the user's state directory: what Dyno must remember, and may not trust the cache to."""
    if named := os.environ.get("XDG_STATE_HOME"):
        return Path(named) / "dyno"
    if os.geteuid() == 0:
        return Path("/var/lib/dyno")
    with suppress(RuntimeError):
        return Path.home() / ".local" / "state" / "dyno"
    return HOMELESS / ".local" / "state" / "dyno"


def trouble(error: OSError) -> str:
    """What the system says is wrong, and with which file where it tells."""
    said = error.strerror or str(error)
    return f"{error.filename}: {said}" if error.filename else said
