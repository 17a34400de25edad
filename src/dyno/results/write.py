"""Writes a run file line by line. Each line is first checked by reading it, and is flushed to the device.

A lock prevents two processes from writing one run file at the same time, which would execute every trial twice. It is
on the file itself, so it leaves no other file behind. The kernel releases it when the process ends.
"""

import errno
import fcntl
import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from msgspec import to_builtins

from dyno.contracts.cell import Cell
from dyno.contracts.model import UsageError
from dyno.contracts.profile import ProfiledTrial
from dyno.contracts.safe_read import MIB
from dyno.contracts.value_types import JsonMapping
from dyno.fields import Sample, plain
from dyno.results import read
from dyno.results.read import CHECKSUM, MOST_LINE, SCHEMA, SEARCH_SCHEMA, is_run_file, parse_line, with_checksum
from dyno.results.run import Attempt


class RunFileLost(OSError):
    """The run file was removed, moved, replaced, cut short or changed during its run."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ENOENT, "removed, replaced or changed during the run", str(path))


class Lock(ExitStack):
    """Exclusive use of a run file, until `close` or the end of the process."""

    _descriptor: int | None = None
    _bytes = 0
    """The size of the file at the last check: it only grows."""

    def take(self, path: Path) -> None:
        """Locks the file. Does nothing if the file is missing or can't be read. Raises UsageError if another process
        has locked it."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                return
            self.add(path, descriptor)
            if self._is_at(path):
                return
            # The file was replaced between opening and locking, so the lock is on a file without a name.
            self.close()
            self._descriptor = None

    def add(self, path: Path, descriptor: int) -> None:
        """Locks the open file, which is or will be at `path`, and takes over its descriptor. Raises UsageError if
        another process has locked it."""
        self.callback(os.close, descriptor)
        self._descriptor = descriptor
        # On a file system without locks (an OSError other than BlockingIOError), the file is used without a lock.
        with suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                hint = "wait until it ends, or name another with -o"
                raise UsageError(f"{path}: another dyno is writing to it; {hint}") from None

    def check(self, path: Path) -> None:
        """Raises RunFileLost if the locked file is no longer at `path`, or is shorter than before."""
        if self._descriptor is None:
            return
        size = os.fstat(self._descriptor).st_size
        if size < self._bytes or not self._is_at(path):
            raise RunFileLost(path)
        self._bytes = size

    def _is_at(self, path: Path) -> bool:
        with suppress(OSError):
            return self._descriptor is not None and os.path.samestat(os.fstat(self._descriptor), path.stat())
        return False


BLOCK = 1 << 16


def create(
    path: Path, header: JsonMapping, cells: Collection[Cell], replace: bool = False, lock: Lock | None = None
) -> None:
    """Writes a new run file without trials and locks it with `lock`. Raises UsageError if the file exists and may not
    be replaced, or if another process is writing to it."""
    if lock is None:
        with Lock() as lock:
            return create(path, header, cells, replace, lock)
    if header["plan"].get("limit"):
        schema = SEARCH_SCHEMA
    else:
        schema = SCHEMA
    line = _encode_line(path, {"kind": "run", "schema": schema, **header, "cells": list(cells)})
    try:
        read.parse_header(parse_line(line))
    except ValueError as error:
        raise _unreadable_error(path, error) from None
    try:
        new = path
        if replace:
            if path.exists() and not is_run_file(path):
                # Raises UsageError, because it is another file.
                read.load(path)
            lock.take(path)
            # The old file stays until the new one is complete.
            new = path.with_name(f".dyno-{os.getpid()}.part")
            new.unlink(missing_ok=True)
        with new.open("xb") as file:
            try:
                # Locked before the file gets its final name, so that no other process can lock it first.
                lock.add(path, os.dup(file.fileno()))
                _write(file, line)
            except OSError:
                new.unlink(missing_ok=True)
                raise
        if replace:
            new.replace(path)
    except FileExistsError:
        hint = "--resume continues it, --overwrite replaces it, -o names another"
        raise UsageError(f"{path} exists: {hint}") from None
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None


def as_read(cells: Collection[Cell]) -> tuple[Cell, ...]:
    """Returns the cells as they would be read from a run file, with sanitized text."""
    line = json.dumps(list(cells), default=_plain).encode()
    try:
        return tuple(read.convert_to_type(parse_line(line), tuple[Cell, ...]))
    except ValueError:
        # A run file can't contain these cells.
        return tuple(cells)


def append(path: Path, attempt: Attempt) -> None:
    """Appends an attempt, flushed to the device. If the attempt could not be read again, appends nothing and raises
    UsageError. Raises OSError."""
    _append(path, {"kind": "trial", **_plain(attempt)}, read.attempt)


def append_profile(path: Path, trial: ProfiledTrial) -> None:
    """Appends a profiled trial, as `append` does an attempt."""
    _append(path, {"kind": "profile", **to_builtins(trial)}, read.profiled_trial)


def _append(
    path: Path, fields: JsonMapping, convert: Callable[[Mapping[str, object], int, Collection[str]], object]
) -> None:
    line = _encode_line(path, fields)
    with path.open("rb") as file:
        cells, phases = _plan(path, file.readline(MOST_LINE).rstrip(b"\n"))
    try:
        convert(parse_line(line), cells, phases)
    except ValueError as error:
        raise _unreadable_error(path, error) from None
    _add(path, line)


@lru_cache(maxsize=1)
def _plan(path: Path, line: bytes) -> tuple[int, frozenset[str]]:
    """Returns the number of cells and the phases, from the first line."""
    recorded, cells = read.parse_first_line(path, line)
    return len(cells), frozenset(recorded["plan"]["phases"])


def extend(path: Path, samples: int) -> None:
    """Appends a line with the new, larger number of samples of each row. Raises OSError."""
    _add(path, _encode_line(path, {"kind": "extension", "samples": samples}))


def end(path: Path, why: str) -> None:
    """Appends a line with the reason why no further block was added. Raises OSError."""
    _add(path, _encode_line(path, {"kind": "end", "why": why}))


def _add(path: Path, line: bytes) -> None:
    try:
        # A removed file is not created again, because it would lack the header.
        with open(path, "ab", opener=lambda name, flags: os.open(name, flags & ~os.O_CREAT)) as file:
            _write(file, line)
    except OSError as error:
        error.filename = str(path)
        raise


def encode(line: Mapping[str, object]) -> bytes:
    """Encodes a line of a run file as JSON, with its checksum. Raises TypeError, ValueError or RecursionError for
    values that JSON can't hold."""
    content = {name: value for name, value in line.items() if name != CHECKSUM}
    return with_checksum(json.dumps(content, separators=(",", ":"), allow_nan=False, default=_plain).encode())


def _encode_line(path: Path, line: Mapping[str, object]) -> bytes:
    """Encodes a line. Raises UsageError for values that JSON can't hold, which a plug-in may report."""
    try:
        encoded = encode(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise _unreadable_error(path, error) from None
    if len(encoded) >= MOST_LINE:
        raise _unreadable_error(path, f"a line of {len(encoded) / MIB:,.0f} MiB, of {MOST_LINE // MIB} at most")
    return encoded


def _plain(value: object) -> dict[str, object]:
    if isinstance(value, Sample):
        return plain(value)
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _unreadable_error(path: Path, why: object) -> UsageError:
    return UsageError(f"can't write to {path}, since it could not be read again: {why}")


def _write(file: BinaryIO, line: bytes) -> None:
    file.write(line + b"\n")
    file.flush()
    os.fsync(file.fileno())


def cut_incomplete_line(path: Path) -> None:
    """Cuts off an incomplete last line, so that the next line can be appended. Raises UsageError if the file can't be
    written."""
    try:
        with path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            newline = -1
            while end and newline < 0:
                begin = max(end - BLOCK, 0)
                file.seek(begin)
                newline, end = file.read(end - begin).rfind(b"\n"), begin
            file.truncate(end + newline + 1)
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None
