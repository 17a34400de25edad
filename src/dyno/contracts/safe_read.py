"""Opens only regular files of limited size for reading: opening a pipe would wait for a writer, and a device has no
end."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dyno.contracts.model import UsageError
from dyno.contracts.settings import format_value
from dyno.contracts.value_types import JsonObject

MIB = 1 << 20


@contextmanager
def open_regular_file(path: Path, most: int) -> Iterator[BinaryIO]:
    """Opens a regular file of at most `most` bytes. Raises UsageError for any other file, or if reading fails."""
    try:
        # Checked before opening, because opening a device may have effects.
        status = path.stat()
    except ValueError as error:
        # The name has a zero byte, or can't be encoded.
        raise UsageError(f"can't read {str(path)!r}: {error}") from None
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from None
    try:
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"can't read {path}: {_kind(status.st_mode)}")
        if status.st_size > most:
            raise UsageError(f"can't read {path}: it has {status.st_size / MIB:,.0f} MiB, of {most // MIB:,} at most")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror or error}") from None


def text(path: Path, most: int) -> str:
    """Returns the UTF-8 text of a regular file of at most `most` bytes. Raises UsageError, and UnicodeDecodeError."""
    with open_regular_file(path, most) as file:
        return file.read(most).decode()


def toml(path: Path) -> JsonObject:
    """Returns the table of a TOML file of at most a MiB. Raises UsageError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text(path, MIB))
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply") from None
    except ValueError as error:
        # The file is not TOML, not UTF-8, or has a number with thousands of digits.
        raise UsageError(f"{path} is not TOML: {format_value(error)}") from None


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return os.strerror(errno.EISDIR)
    named = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    return f"it is {named.get(stat.S_IFMT(mode), 'something else')}, not a file"
