"""Flushes files to the device, for libraries that leave that to their users."""

import os
from collections.abc import Iterable
from pathlib import Path


def flush(files: Iterable[Path]) -> None:
    """Flushes the files, with their lengths, and the directories that contain their names."""
    paths = list(files)
    for path in (*paths, *{path.parent for path in paths}):
        fsync(path)


def fsync(path: Path) -> None:
    """Flushes a file or a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, content: str, flushed: bool) -> None:
    """Replaces a file atomically. If `flushed`, returns when the new content is on the device."""
    new = path.with_suffix(".new")
    new.write_text(content)
    if flushed:
        fsync(new)
    new.replace(path)
    if flushed:
        fsync(path.parent)
