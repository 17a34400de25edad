"""A file that is there as a whole or not at all, whatever ends who writes it."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """What is there stays until all of the new one is. `path` is no link. Raises OSError; nothing is left beside."""
    part = path.with_name(f".dyno-{os.getpid()}.part")
    # Created anew: opening a link of that name would write to what it leads to.
    part.unlink(missing_ok=True)
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
