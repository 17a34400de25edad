"""Result file of `dyno crash`: a line of JSON with the request, then a line for each finished row.

Each line is flushed to the device, so that the file of an interrupted command has all finished rows.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from dyno import __version__
from dyno.contracts.decoded_types import Count, Fact, Text
from dyno.contracts.model import UsageError
from dyno.contracts.sanitize import sanitize
from dyno.results.header import Texts
from dyno.results.read import convert_to_type, lines, parse_line

KIND, SCHEMA = "crash", 1


class Crashes(TypedDict):
    count: Count
    outcomes: Mapping[Text, Count]
    lost: Count


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
    """A row, as `rows.CrashRow.data` returns it and docs/reference/crash-findings.md documents it."""

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


def create(path: Path, request: Mapping[str, object], replace: bool = False) -> None:
    """Creates a file with the request and no rows.

    Raises UsageError if the file exists, unless `replace` is true and it is a result file.
    """
    if path.exists():
        if not replace:
            raise UsageError(f"{path} exists: --overwrite replaces it, -o names another")
        load(path)
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None
    append(path, {"kind": KIND, "schema": SCHEMA, "dyno": __version__, **request})


def append(path: Path, line: Mapping[str, object]) -> None:
    """Appends a line and flushes it to the device. Raises OSError."""
    with path.open("ab") as file:
        file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def load(path: Path) -> tuple[dict[str, object], list[CrashResult]]:
    """Returns the request and the rows. Ignores an unfinished last line. Raises UsageError."""
    try:
        # Parse lazily, since another kind of file may be large.
        documents = map(parse_line, lines(path))
        header = next(documents, None)
        if not isinstance(header, dict) or header.get("kind") != KIND:
            raise ValueError("its first line is not that of one")
        if header.get("schema") != SCHEMA:
            schema = sanitize(str(header.get("schema")), 80, "")
            raise UsageError(f"{path} is of schema {schema}; this Dyno reads {SCHEMA}")
        rows = [line for line in documents if isinstance(line, dict) and line.get("kind") == "row"]
        return header, [convert_to_type(row, CrashResult) for row in rows]
    except ValueError as error:
        raise UsageError(f"{path} is not a result file of `dyno crash`: {error}") from None
