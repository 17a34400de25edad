"""Writes what a command makes to the file that the user named."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dyno import results
from dyno.model import UsageError


def save(path: Path, content: bytes) -> None:
    """The whole file or none of it, and says so. Raises UsageError for what can't be written, and for a run file: it
    can't be made again."""
    try:
        if path.exists() and not path.is_file():
            # A device or a pipe: what is there is not to be replaced.
            path.write_bytes(content)
        else:
            _refuse_run_file(path)
            _replace(path.resolve(), content)
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None
    print(f"Written to {path}", file=sys.stderr)


def directory(path: Path) -> Path:
    """Made if it is not there. Raises UsageError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't make {path}: {error.strerror}") from None
    return path


def _refuse_run_file(path: Path) -> None:
    if path.exists():
        with path.open("rb") as file:
            if file.read(len(results.OPENING)) == results.OPENING:
                raise UsageError(f"-o {path}: that is a run file, which is not replaced by what is shown of one")


def _replace(path: Path, content: bytes) -> None:
    """`path` is no link: a link stays one, and what it leads to is replaced."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
