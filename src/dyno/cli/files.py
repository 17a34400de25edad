"""Writes a command's result to the file that the user named, or to standard output."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dyno import results
from dyno.contracts.model import UsageError
from dyno.host.filesystem import replace

OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def is_output(path: str) -> bool:
    """Whether the path means standard output. A file named `-` is `./-`."""
    return path in OUTPUT


def sidecar(path: Path, suffix: str) -> Path:
    """Returns the file that is named like a run file, with another suffix. Raises UsageError for a directory."""
    if path.is_dir():
        raise UsageError(f"can't read {path}: it is {KINDS[stat.S_IFDIR]}")
    return path.with_suffix(suffix)


def check(path: str) -> None:
    """Raises UsageError if `save` can't write the file, as far as that is known beforehand, and if it would replace a
    run file, which can't be made again."""
    if is_output(path):
        return
    kind = _kind(path)
    if kind in (stat.S_IFDIR, stat.S_IFBLK, stat.S_IFSOCK):
        raise UsageError(f"can't write {path}: it is {KINDS[kind]}")
    with _errors(path):
        if results.is_run_file(Path(path)):
            raise UsageError(f"-o {path}: that is a run file, which is never replaced: name another file")
    if kind is None and not _target(path).parent.is_dir():
        raise UsageError(f"can't write {path}: {os.strerror(errno.ENOENT)}")


def check_streamed(path: str) -> None:
    """Raises UsageError if the file can't be written piece by piece."""
    check(path)
    if _kind(path) == stat.S_IFIFO:
        # Opening a pipe waits for a reader.
        raise UsageError(f"can't write {path}: it is {KINDS[stat.S_IFIFO]}")


def save(path: str, content: bytes) -> None:
    """Writes the whole file or nothing, and prints its name. Raises UsageError as `check` does."""
    check(path)
    if is_output(path):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    with _errors(path):
        if _kind(path) in (None, stat.S_IFREG):
            # A link stays, and its target is replaced.
            replace(_target(path), content)
        else:
            Path(path).write_bytes(content)
    print(f"Written to {path}", file=sys.stderr)


def directory(path: str) -> Path:
    """Creates the directory if it is missing. Raises UsageError."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"can't create {path}: it exists and is not a directory") from None
    except OSError as error:
        raise UsageError(f"can't create {path}: {error.strerror}") from None
    return Path(path)


def read_head(path: str, count: int) -> bytes | None:
    """The first bytes of a regular file; None if there is no such file. Raises UsageError if it can't be read."""
    if is_output(path) or _kind(path) != stat.S_IFREG:
        return None
    with _errors(path), Path(path).open("rb") as file:
        return file.read(count)


def run_file(path: str) -> Path:
    """The path of an existing or new run file; of a link, its target. Raises UsageError for what is not a regular
    file."""
    if is_output(path):
        raise UsageError(f"-o {path}: a run file is appended to after every trial; name a file")
    kind = _kind(path)
    if kind not in (None, stat.S_IFREG):
        raise UsageError(f"-o {path}: a run file is a regular file, got {KINDS.get(kind, 'something else')}")
    if Path(path).is_symlink():
        return _target(path)
    return Path(path)


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Raises UsageError for an error of the system, such as of a removed working directory."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UsageError(f"can't write {path}: {getattr(error, 'strerror', None) or error}") from None


def _target(path: str) -> Path:
    with _errors(path):
        return Path(os.path.realpath(path))


def _kind(path: str) -> int | None:
    """The type of a file, as of `stat.S_IFMT`; None if it does not exist. Raises UsageError."""
    with _errors(path), suppress(FileNotFoundError):
        return stat.S_IFMT(Path(path).stat().st_mode)
    return None
