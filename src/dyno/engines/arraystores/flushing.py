"""Flushes files to the device, for engines whose library leaves that to who uses it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def flush(files: Iterable[Path]) -> None:
    """Contents and lengths of these files, and the names in their directories."""
    directories = set()
    for path in files:
        _flush(path)
        directories.add(path.parent)
    for path in directories:
        _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, content: str, flushed: bool) -> None:
    """The file has the old content, or the new one, whatever happens; flushed, before this returns."""
    new = path.with_suffix(".new")
    new.write_text(content)
    if flushed:
        _flush(new)
    new.replace(path)
    if flushed:
        _flush(path.parent)
