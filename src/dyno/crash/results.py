"""The file of what was crashed: a line of JSON that says what was asked for, and one for each row as it is done, each
flushed to the device. One that was interrupted has the rows until then, and can be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dyno import __version__
from dyno.model import UsageError
from dyno.results.parse import parsed

KIND, SCHEMA = "crash", 1
OPENING = f'{{"kind":"{KIND}"'.encode()


def create(path: Path, asked: Mapping[str, Any], replace: bool = False) -> None:
    """A new file without rows. Raises UsageError where one is there that is not to be replaced, or is none of
    these."""
    if path.exists():
        if not replace:
            raise UsageError(f"{path} exists: --overwrite replaces it, -o names another")
        load(path)
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None
    append(path, {"kind": KIND, "schema": SCHEMA, "dyno": __version__, **asked})


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Raises OSError."""
    with path.open("ab") as file:
        file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def load(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What was asked for, and the rows. A last line that was never ended is passed over. Raises UsageError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    try:
        if not lines[0].startswith(OPENING):
            raise ValueError("it does not begin as one")
        header, *found = (parsed(line) for line in lines[:-1])
    except ValueError as error:
        raise UsageError(f"{path} is no file of `dyno crash`: {error}") from None
    if header.get("schema") != SCHEMA:
        raise UsageError(f"{path} is of schema {header.get('schema')}; this Dyno reads {SCHEMA}")
    return header, [row for row in found if row.get("kind") == "row"]
