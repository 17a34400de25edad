"""Verifies a program in the cache before it runs: its owner, its permissions and its hash.

The hash of Java archives is in the program's declaration. The hash of a program that Go built is written to the state
directory after the build. That directory is outside the cache, so somebody who can only write to the cache can't
change both.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Jars, Program
from dyno.host import directories, trust

MIB = 1 << 20


def verify(program: Program, path: Path) -> None:
    """Raises Refused, with the remedy, if the program at `path` may differ from the program that was installed.

    Files are hashed once; afterwards their inodes, sizes and times are compared, which are kept in the state
    directory. Only root can set the change time of a file.
    """
    files = sorted(path.iterdir()) if isinstance(program.source, Jars) else [path]
    for place in (directories.cache(), program.home.parent, program.home, path, *files):
        if why := _untrusted(place):
            raise Refused(why)
    identity = _identity(files)
    record = _read(program)
    if record.get("identity") == identity:
        return
    digest = _digest(program, files)
    expected = record.get("sha256") if isinstance(program.source, GoModule) else program.source.sha256
    if expected not in (None, digest):
        raise Refused(
            f"{path} is not what was installed: its SHA-256 is {digest}, not {expected}; dyno install gets it again"
        )
    _write(program, {"sha256": digest, "identity": identity})


def forget(program: Program) -> None:
    """Deletes the recorded hash of a program that is about to be installed again."""
    with suppress(OSError):
        _record(program).unlink()


def _untrusted(place: Path) -> str | None:
    """Returns why another user may have written to `place`; None if only this user or root can have."""
    status = place.stat()
    if status.st_uid not in (0, os.geteuid()):
        return f"{place} belongs to another user (uid {status.st_uid}), so what is in it is not run"
    # By convention, a group with the same number as its user has no other members.
    group = status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid
    if group or status.st_mode & stat.S_IWOTH:
        return f"others may write to {place}, so what is in it is not run: chmod go-w {place}"
    return None


def _identity(files: Iterable[Path]) -> list[list[Any]]:
    stats = [(file, file.stat()) for file in files]
    return [[str(file), of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns] for file, of in stats]


def _digest(program: Program, files: Iterable[Path]) -> str:
    """Returns the SHA-256 of the program's file. For several files see `dyno.contracts.programs.Jars`."""
    each = [(file.name, _sha256(file)) for file in files]
    if not isinstance(program.source, Jars):
        return each[0][1]
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in each).encode()).hexdigest()


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(MIB):
            digest.update(chunk)
    return digest.hexdigest()


def _record(program: Program) -> Path:
    # The name contains a hash of the path, because there may be several caches.
    of = hashlib.sha256(os.fsencode(program.home.absolute())).hexdigest()[:16]
    return directories.state() / f"{program.home.name}-{of}.json"


def _read(program: Program) -> dict[str, Any]:
    with suppress(ValueError):
        known = json.loads(trust.read(_record(program)) or "{}")
        return known if isinstance(known, dict) else {}
    return {}


def _write(program: Program, known: dict[str, Any]) -> None:
    """Records hash and identity of the files. Without a state directory, files are hashed each time."""
    record = _record(program)
    with suppress(OSError):
        record.parent.parent.mkdir(parents=True, exist_ok=True)
        if trust.make_private_directory(record.parent, 0o700):
            trust.write(record, json.dumps(known))
