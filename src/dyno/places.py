"""Where Dyno keeps what it was told to get or to make. Nothing is made here."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """`dyno` in the user's cache directory: on a disk, where /tmp often is not.

    That of root is in /var/cache: servers that refuse to run as root can't enter root's home.
    """
    home = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "dyno"
