"""The directory of a site. Only files that an earlier build wrote are replaced or removed, links are never followed,
and an interrupted build leaves the earlier files in place.

The manifest has the SHA-256 of each file that a build wrote. A file with another content belongs to the user.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dyno.contracts.model import UsageError
from dyno.host.filesystem import replace
from dyno.host.process import deferred_signals
from dyno.results import Lock

MARKER = ".dyno-site"
"""Name of the manifest."""
FRESH = ".dyno-site-new-"
"""Prefix of the directory in which a build collects its files."""
_NAME = re.compile(r"(?:runs/)?\w[\w.-]*", re.ASCII)
"""Valid paths of a site's files."""
_FRESH_NAME = re.compile(re.escape(FRESH) + "[0-9a-f]{8}")


# SHA-256 of each file that a build wrote, by path in the site. While files are exchanged, a path has two: the old and
# the new one.
_Sums = Mapping[str, list[str]]


def write(directory: Path, files: Iterable[tuple[str, str | bytes]]) -> None:
    """Replaces the files of the previous build with these. Each has a path below the directory and a content. Other
    files stay. Raises UsageError for a directory that is neither empty nor a site's. Also raises it if a file would
    have to be overwritten that no earlier build wrote."""
    check(directory)
    existed = directory.exists()
    with _writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with Lock() as lock:
        lock.take(directory)
        before = _read(directory)
        (old, unfinished), exchanging = before or ({}, None), False
        fresh = directory / f"{FRESH}{secrets.token_hex(4)}"
        try:
            with _writing(directory):
                if unfinished is not None:
                    # A build that was killed left the directory. rmtree does not follow links.
                    shutil.rmtree(directory / unfinished, ignore_errors=True)
                # Written to the manifest before it is created, because later builds only remove a directory that the
                # manifest names.
                _mark(directory, old, fresh.name)
                fresh.mkdir(0o700)
            new = dict[str, list[str]]()
            for name, content in files:
                assert _NAME.fullmatch(name), name
                if name.startswith("runs/") and (directory / "runs").is_symlink():
                    raise UsageError(f"{directory}/runs is a link, and links are not followed: remove it")
                path = directory / name
                if os.path.lexists(path) and not _is_own(path, directory, old.get(name, [])):
                    raise UsageError(
                        f"{path} was not written by dyno site, or was changed since: move it away, or name another"
                        " directory with -o"
                    )
                data = content.encode() if isinstance(content, str) else content
                with _writing(directory):
                    (fresh / name).parent.mkdir(exist_ok=True)
                    (fresh / name).write_bytes(data)
                new[name] = [hashlib.sha256(data).hexdigest()]
            with deferred_signals() as deferred, _writing(directory):
                exchanging = True
                _exchange(directory, fresh, old, new)
            if deferred:
                raise KeyboardInterrupt
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            if not exchanging:
                with suppress(OSError):
                    if before is not None:
                        _mark(directory, old)
                    else:
                        (directory / MARKER).unlink(missing_ok=True)
                        if not existed:
                            directory.rmdir()


def check(directory: Path) -> None:
    """Raises UsageError for a directory that `write` refuses."""
    if not os.path.lexists(directory):
        return
    if not directory.is_dir():
        raise UsageError(f"{directory} exists and is not a directory: -o names one")
    _read(directory)


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"can't write {directory}: {error.strerror}") from None


def _read(directory: Path) -> tuple[_Sums, str | None] | None:
    """Returns the manifest, which also names the directory in which an unfinished build collects its files; None for
    an empty directory. Raises UsageError."""
    path = directory / MARKER
    manifest: Any = None
    with _writing(directory):
        if not os.path.lexists(path) and not any(directory.iterdir()):
            return None
    with suppress(OSError, ValueError, RecursionError):
        if path.is_file() and not path.is_symlink():
            manifest = json.loads(path.read_bytes())
    files, building = (manifest.get(key) if isinstance(manifest, dict) else None for key in ("files", "building"))
    if isinstance(files, list):
        raise UsageError(
            f"{directory} was not made by dyno site of this version: its manifest has no checksums. Remove it, or"
            " name another directory with -o"
        )
    valid = isinstance(files, dict) and all(
        _NAME.fullmatch(name) and isinstance(sums, list) and all(isinstance(known, str) for known in sums)
        for name, sums in files.items()
    )
    if not valid or not (building is None or (isinstance(building, str) and _FRESH_NAME.fullmatch(building))):
        raise UsageError(f"{directory} is not empty and was not made by dyno site: -o names another directory")
    return files or {}, building


def _is_own(path: Path, directory: Path, sums: list[str]) -> bool:
    """Returns whether a file still has the content that an earlier build wrote, and neither it nor its directory in
    the site is a link."""
    with suppress(OSError):
        if path.is_file() and not path.is_symlink() and (path.parent == directory or not path.parent.is_symlink()):
            return hashlib.sha256(path.read_bytes()).hexdigest() in sums
    return False


def _exchange(directory: Path, fresh: Path, old: _Sums, new: _Sums) -> None:
    # The manifest is written first: if this is interrupted, the next build knows every file that was written.
    both = {name: old.get(name, []) + new.get(name, []) for name in {**old, **new}}
    _mark(directory, both, fresh.name)
    for name in new:
        (directory / name).parent.mkdir(exist_ok=True)
        (fresh / name).replace(directory / name)
    for name in old.keys() - new.keys():
        with suppress(OSError):
            if _is_own(directory / name, directory, old[name]):
                (directory / name).unlink()
    shutil.rmtree(fresh, ignore_errors=True)
    _mark(directory, new)


def _mark(directory: Path, files: _Sums, building: str | None = None) -> None:
    data = {"files": files, **({} if building is None else {"building": building})}
    replace(directory / MARKER, json.dumps(data, indent=0).encode())
