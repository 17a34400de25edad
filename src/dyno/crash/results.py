"""The file of what was crashed: a line of JSON that says what was asked for, and one for each row as it is done, each
flushed to the device. One that was interrupted has the rows until then, and can be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from dyno import __version__
from dyno.contracts.decoded_types import Count, Fact, Text
from dyno.contracts.model import UsageError
from dyno.results.header import Crashes, Texts
from dyno.results.parse import lines, parsed
from dyno.results.read import typed
from dyno.text.sanitize import sanitize

KIND, SCHEMA = "crash", 1


class Fault(TypedDict):
    when: Text
    outcome: Text
    why: Text
    acknowledged: Count
    begun: Count
    held: Count | None
    witness: Texts
    directory: Text | None


class CrashResult(TypedDict):
    """See `crash.rows.Row`, and docs/crash.md."""

    engine: Text
    tier: Text
    settings: Mapping[Text, Fact]
    version: Text | None
    verdict: Text
    why: Text
    traced: Text | None
    killed: Crashes | None
    cut: Crashes | None
    recovery: Crashes | None
    birth: Crashes | None
    device: Crashes | None
    model: Text
    system: Text | None
    faults: list[Fault]
    notes: Texts


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
        # Not all of another file, which may be large, before it is known to be one.
        found = map(parsed, lines(path))
        header = next(found, None)
        if not isinstance(header, dict) or header.get("kind") != KIND:
            raise ValueError("it does not begin as one")
        if header.get("schema") != SCHEMA:
            schema = sanitize(str(header.get("schema")), 80, "")
            raise UsageError(f"{path} is of schema {schema}; this Dyno reads {SCHEMA}")
        return header, [typed(line, CrashResult) for line in found if _kind(line) == "row"]
    except ValueError as error:
        raise UsageError(f"{path} is no file of `dyno crash`: {error}") from None


def _kind(line: object) -> object:
    return line.get("kind") if isinstance(line, dict) else None
