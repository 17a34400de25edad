"""Verifies a program in the cache before it runs: its owner, its permissions and its hash.

The hash of Java archives is in the program's declaration. The hash of a program that Go built is written to the state
directory after the build. That directory is outside the cache, so that nobody can change both through the cache.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Jars, Program
from dyno.host import directories, trust


def verify(program: Program, path: Path) -> None:
    """Raises Refused, with the remedy, if the program at `path` may differ from the program that was installed.

    Files are hashed once; afterwards their inodes, sizes and times are compared, which are kept in the state
    directory. Only root can set the change time of a file.
    """
    if isinstance(program.source, Jars):
        files = sorted(path.iterdir())
    else:
        files = [path]
    for place in (directories.cache(), program.home.parent, program.home, path, *files):
        _check_owner(place)
    stats = [(file, file.stat()) for file in files]
    identity = [[str(file), of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns] for file, of in stats]
    record, known = _record(program), dict[str, object]()
    with suppress(ValueError, TypeError):
        known = dict(json.loads(trust.read(record) or "{}"))
    if known.get("identity") == identity:
        return
    digest = sha256(program, files)
    if isinstance(program.source, GoModule):
        expected = known.get("sha256")
    else:
        expected = program.source.sha256
    if expected not in (None, digest):
        raise Refused(
            f"{path} is not what was installed: its SHA-256 is {digest}, not {expected}; dyno install gets it again"
        )
    # Without a state directory, files are hashed each time.
    with suppress(OSError):
        record.parent.parent.mkdir(parents=True, exist_ok=True)
        if trust.make_private_directory(record.parent, 0o700):
            trust.write(record, json.dumps({"sha256": digest, "identity": identity}))


def forget(program: Program) -> None:
    """Deletes the recorded hash of a program that is about to be installed again."""
    with suppress(OSError):
        _record(program).unlink()


def _check_owner(place: Path) -> None:
    """Raises Refused if anybody but this user or root may have written to `place`."""
    status = place.stat()
    if status.st_uid not in (0, os.geteuid()):
        raise Refused(f"{place} belongs to another user (uid {status.st_uid}), so what is in it is not run")
    # By convention, a group with the same number as its user has no other members.
    group = status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid
    if group or status.st_mode & stat.S_IWOTH:
        raise Refused(f"others may write to {place}, so what is in it is not run: chmod go-w {place}")


def sha256(program: Program, files: Iterable[Path]) -> str:
    """Returns the SHA-256 of the program's file. For several files see `dyno.contracts.programs.Jars`."""
    each = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    if not isinstance(program.source, Jars):
        return each[0][1]
    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in each).encode()).hexdigest()


def _record(program: Program) -> Path:
    # The name contains a hash of the path, because there may be several caches.
    of = hashlib.sha256(os.fsencode(program.home.absolute())).hexdigest()[:16]
    return directories.state() / f"{program.home.name}-{of}.json"
