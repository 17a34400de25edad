"""The directory of a site. Only files that an earlier build wrote are replaced or removed, links are never followed,
and an interrupted build leaves what was there before.

The manifest has the SHA-256 of each file that a build wrote. A file with another content is the user's own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dyno.contracts.model import UsageError
from dyno.host.filesystem import replace

MARKER = ".dyno-site"
"""The manifest."""
FRESH = ".dyno-site-new-"
"""Prefix of the directory in which a build collects its files."""
_NAME = re.compile(r"(?:(runs)/)?(\w[\w.-]*)", re.ASCII)
"""Paths of a site's files."""
_FRESH_NAME = re.compile(re.escape(FRESH) + "[0-9a-f]{8}")
_NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOREIGN = "is not empty and was not made by dyno site: -o names another directory"


@dataclass(frozen=True)
class _Manifest:
    files: Mapping[str, list[str]] = field(default_factory=dict)
    """By path in the site: the SHA-256 of what a build wrote. While files are exchanged, a path has two: old and
    new."""
    building: str | None = None
    """The directory in which a build collects its files, until it has ended."""


def write(directory: Path, files: Iterable[tuple[str, str | bytes]]) -> None:
    """Replaces the files of the build before with these: each a path below the directory and its content. Other files
    stay. Raises UsageError for a directory that is not empty and not a site's, and for a file that would have to be
    overwritten and was not written by an earlier build."""
    check(directory)
    existed = directory.exists()
    with _writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory) as top:
        before = _read(directory, top)
        old, exchanging = before or _Manifest(), False
        fresh = directory / f"{FRESH}{secrets.token_hex(4)}"
        try:
            with _writing(directory):
                if old.building is not None:
                    # Left by a build that was killed. rmtree does not follow links.
                    shutil.rmtree(directory / old.building, ignore_errors=True)
                # First in the manifest: only a directory that it names is removed later.
                _mark(directory, _Manifest(old.files, fresh.name))
                fresh.mkdir(0o700)
            new = {}
            for name, content in files:
                _check_own(directory, top, name, old.files.get(name, []))
                data = content.encode() if isinstance(content, str) else content
                with _writing(directory):
                    (fresh / name).parent.mkdir(exist_ok=True)
                    (fresh / name).write_bytes(data)
                new[name] = [hashlib.sha256(data).hexdigest()]
            with _undisturbed(), _writing(directory):
                exchanging = True
                _exchange(directory, top, fresh, old.files, new)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            if not exchanging:
                _undo(directory, before, existed)


def check(directory: Path) -> None:
    """Raises UsageError for a directory that `write` refuses."""
    if not os.path.lexists(directory):
        return
    if not directory.is_dir():
        raise UsageError(f"{directory} exists and is not a directory: -o names one")
    with _opened(directory) as top:
        _read(directory, top)


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"can't write {directory}: {error.strerror}") from None


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    with _writing(directory):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """The directory's descriptor. Raises UsageError while another build holds the lock."""
    with _opened(directory) as top:
        try:
            fcntl.flock(top, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{directory}: another dyno site is writing to it") from None
        except OSError:
            # Some network file systems have no locks.
            pass
        yield top


def _read(directory: Path, top: int) -> _Manifest | None:
    """The manifest; None for an empty directory. Raises UsageError."""
    try:
        content = _content(top, MARKER)
    except FileNotFoundError:
        with _writing(directory):
            if not os.listdir(top):
                return None
        raise UsageError(f"{directory} {_FOREIGN}") from None
    except OSError:
        content = None
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(content or b"")
    files, building = (found.get("files"), found.get("building")) if isinstance(found, dict) else (None, None)
    if isinstance(files, list):
        raise UsageError(
            f"{directory} was not made by dyno site of this version: its manifest has no checksums. Remove it, or"
            " name another directory with -o"
        )
    if not isinstance(files, dict) or not all(map(_plausible, files.items())):
        raise UsageError(f"{directory} {_FOREIGN}")
    if building is not None and not (isinstance(building, str) and _FRESH_NAME.fullmatch(building)):
        raise UsageError(f"{directory} {_FOREIGN}")
    return _Manifest(files, building)


def _plausible(entry: tuple[str, Any]) -> bool:
    name, sums = entry
    return bool(_NAME.fullmatch(name)) and isinstance(sums, list) and all(isinstance(known, str) for known in sums)


def _content(directory: int, name: str) -> bytes | None:
    """Content of a regular file; None for anything else. Raises OSError, also for a link."""
    descriptor = os.open(name, _NO_LINK, dir_fd=directory)
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


@contextmanager
def _place(top: int, name: str, make: bool = False) -> Iterator[tuple[int, str]]:
    """The directory that has a file of the site, and the file's name in it. Raises OSError where that is a link or no
    directory."""
    found = _NAME.fullmatch(name)
    assert found is not None, name
    if found[1] is None:
        yield top, name
        return
    if make:
        with suppress(FileExistsError):
            os.mkdir(found[1], dir_fd=top)
    descriptor = os.open(found[1], _NO_LINK | os.O_DIRECTORY, dir_fd=top)
    try:
        yield descriptor, found[2]
    finally:
        os.close(descriptor)


def _own(top: int, name: str, sums: list[str]) -> bool:
    """Whether a file is as an earlier build wrote it. Raises OSError."""
    with _place(top, name) as (parent, base):
        content = _content(parent, base)
    return content is not None and hashlib.sha256(content).hexdigest() in sums


def _check_own(directory: Path, top: int, name: str, sums: list[str]) -> None:
    """Raises UsageError for a file that is there and was not written by an earlier build."""
    try:
        if _own(top, name, sums):
            return
    except FileNotFoundError:
        return
    except OSError:
        # A link, be it the file or its directory, or something that can't be read.
        if name.startswith("runs/") and (directory / "runs").is_symlink():
            raise UsageError(f"{directory}/runs is a link, and links are not followed: remove it") from None
    raise UsageError(
        f"{directory / name} was not written by dyno site, or was changed since: move it away, or name another"
        " directory with -o"
    )


def _exchange(
    directory: Path, top: int, fresh: Path, old: Mapping[str, list[str]], new: Mapping[str, list[str]]
) -> None:
    # Whatever stops this, the next build knows every file that was written.
    both = {name: old.get(name, []) + new.get(name, []) for name in {**old, **new}}
    _mark(directory, _Manifest(both, fresh.name))
    for name in new:
        with _place(top, name, make=True) as (parent, base):
            os.replace(fresh / name, base, dst_dir_fd=parent)
    for name in old.keys() - new.keys():
        with suppress(OSError):
            if _own(top, name, old[name]):
                with _place(top, name) as (parent, base):
                    os.unlink(base, dir_fd=parent)
    shutil.rmtree(fresh, ignore_errors=True)
    _mark(directory, _Manifest(new))


def _undo(directory: Path, before: _Manifest | None, existed: bool) -> None:
    """Restores the manifest of the build before; a directory that this build made is removed."""
    with suppress(OSError):
        if before is not None:
            _mark(directory, _Manifest(before.files))
            return
        (directory / MARKER).unlink(missing_ok=True)
        if not existed:
            directory.rmdir()


def _mark(directory: Path, manifest: _Manifest) -> None:
    data = {"files": manifest.files, **({} if manifest.building is None else {"building": manifest.building})}
    replace(directory / MARKER, json.dumps(data, indent=0).encode())


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Puts off what would interrupt."""
    caught: list[int] = []

    def put_off(number: int, frame: Any) -> None:
        caught.append(number)

    before = {number: signal.signal(number, put_off) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        raise KeyboardInterrupt
