"""Writes a run file, line by line, each flushed to the device; and nothing that could not be read again."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from dyno.contracts.model import UsageError
from dyno.contracts.sample import Cell, Sample, plain
from dyno.results import read
from dyno.results.lock import Lock
from dyno.results.parse import MOST_LINE, is_run_file, parsed
from dyno.results.read import SCHEMA
from dyno.results.run import Attempt
from dyno.text.safe_read import MIB

BLOCK = 1 << 16


def create(
    path: Path, header: Mapping[str, Any], cells: Collection[Cell], replace: bool = False, lock: Lock | None = None
) -> None:
    """Writes a new run file with no trials, which `lock` then holds. Raises UsageError if it is there and may not be
    replaced, or another process is writing to it."""
    if lock is None:
        with Lock() as lock:
            return create(path, header, cells, replace, lock)
    line = _encoded(path, {"kind": "run", "schema": SCHEMA, **header, "cells": list(cells)})
    try:
        read.begun(parsed(line))
    except ValueError as error:
        raise _unreadable(path, error) from None
    try:
        if replace:
            _check_replaced(path)
            lock.take(path)
            # The old one is there until the new one is.
            part = path.with_name(f".dyno-{os.getpid()}.part")
            part.unlink(missing_ok=True)
            _begin(part, line, lock)
            part.replace(path)
        else:
            _begin(path, line, lock)
    except FileExistsError:
        hint = "--resume continues it, --overwrite replaces it, -o names another"
        raise UsageError(f"{path} exists: {hint}") from None
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None


def kept(cells: Collection[Cell]) -> tuple[Cell, ...]:
    """As they are once they were written and read: text that could do harm is not what it was."""
    line = json.dumps(list(cells), default=_plain).encode()
    try:
        found: tuple[Cell, ...] = read.typed(parsed(line), tuple[Cell, ...])
    except ValueError:
        # They are in no run file.
        return tuple(cells)
    return found


def _begin(path: Path, line: bytes, lock: Lock) -> None:
    """A new file with that line, locked; none, if it can't be written."""
    with path.open("xb") as file:
        try:
            # Before it has its final name, so that nobody else can lock it first.
            lock.add(path, os.dup(file.fileno()))
            _write(file, line)
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _check_replaced(path: Path) -> None:
    """What is not a run file, be it one that was killed in its first line, is refused by its reading."""
    if path.exists() and not is_run_file(path):
        read.load(path)


def append(path: Path, attempt: Attempt) -> None:
    """Adds one attempt, flushed to the device. Raises OSError; and UsageError, adding nothing, for one that could not
    be read again."""
    line = _encoded(path, {"kind": "trial", **_plain(attempt)})
    with path.open("rb") as file:
        cells, phases = _plan(path, file.readline(MOST_LINE).rstrip(b"\n"))
    try:
        read.attempt(parsed(line), cells, phases)
    except ValueError as error:
        raise _unreadable(path, error) from None
    _add(path, line)


@lru_cache(maxsize=1)
def _plan(path: Path, line: bytes) -> tuple[int, frozenset[str]]:
    """The number of cells and the phases, by the first line."""
    header, cells = read.opening(path, line)
    return len(cells), frozenset(header["plan"]["phases"])


def end(path: Path, why: str) -> None:
    """Says why no further block was added. Raises OSError."""
    _add(path, _encoded(path, {"kind": "end", "why": why}))


def _add(path: Path, line: bytes) -> None:
    try:
        # One that was taken away is not made anew: it would have no header.
        with open(path, "ab", opener=lambda name, flags: os.open(name, flags & ~os.O_CREAT)) as file:
            _write(file, line)
    except OSError as error:
        error.filename = str(path)
        raise


def _encoded(path: Path, line: Mapping[str, Any]) -> bytes:
    """Raises UsageError for what is no JSON: an engine's plug-in may tell anything."""
    try:
        encoded = json.dumps(line, separators=(",", ":"), allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    if len(encoded) >= MOST_LINE:
        raise _unreadable(path, f"a line of {len(encoded) / MIB:,.0f} MiB, of {MOST_LINE // MIB} at most")
    return encoded


def _plain(found: Any) -> dict[str, Any]:
    """A cell, an attempt or a part of it."""
    if isinstance(found, Sample):
        return plain(found)
    if not is_dataclass(found):
        raise TypeError(f"{type(found).__name__} is not JSON")
    return {field.name: getattr(found, field.name) for field in fields(found)}


def _unreadable(path: Path, why: object) -> UsageError:
    return UsageError(f"can't write to {path} what could not be read again: {why}")


def _write(file: BinaryIO, line: bytes) -> None:
    file.write(line + b"\n")
    file.flush()
    os.fsync(file.fileno())


def mend(path: Path) -> None:
    """Cuts off a torn last line, so that the next one starts on a line of its own. Raises UsageError for a file that
    can't be written: before there is something to write."""
    try:
        with path.open("r+b") as file:
            file.truncate(_whole(file))
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None


def _whole(file: BinaryIO) -> int:
    """The length of its whole lines, looked for from its end."""
    at = file.seek(0, os.SEEK_END)
    while at:
        begin = max(at - BLOCK, 0)
        file.seek(begin)
        found, at = file.read(at - begin).rfind(b"\n"), begin
        if found >= 0:
            return begin + found + 1
    return 0
