"""The option `program`: another program than the one that is found, to serve in its place, so that two versions of a
server run side by side. What a server needs of its program, and how it is started, may not be put here.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dyno.contracts.model import Value
from dyno.contracts.programs import Program
from dyno.contracts.settings import Setting
from dyno.servers.process import program, shut, unprivileged
from dyno.text.sanitize import sanitize

PROGRAM = "program"
SHOWN, PATIENCE = 80, 20


class Kind(NamedTuple):
    """A server's program: how it is told from others, and which versions of it can be run."""

    title: str
    """'PostgreSQL server'."""
    told: str
    """What it says of itself, as a regular expression; its first group is the version, where it tells one."""
    asked: tuple[str, ...] = ("--version",)
    """The words by which it is asked."""
    least: str = ""
    """The earliest version that can be run; empty where any can."""
    below: str = ""
    """The earliest that can't be run any more; empty where there is none."""
    helpers: tuple[str, ...] = ()
    """Programs that are used with it, from the same directory."""
    users: tuple[str, ...] = ()
    """Whom it runs as where this process is root's: the first that there is, or nobody. None: as this process."""

    @property
    def setting(self) -> Setting:
        return Setting(PROGRAM, _absolute, "", f"path of the {self.title}'s program that is to be started")

    def wrong(self, path: str) -> str | None:
        """Why the program there can't be started, in one line; None where it can."""
        why = _why(self, path)
        return why and f"can't start {sanitize(path, SHOWN, '')}: {why}"

    def version_of(self, made: Program, path: str) -> str:
        """That of the program at `path`, or else of the one that `found` finds."""
        if not path and made.path():
            return made.version
        return self.version(path or program(made.name) or made.name) or "of unknown version"

    def version(self, path: str) -> str | None:
        """That of the program there; None where it tells none."""
        found = re.search(self.told, _said(path, self.asked))
        return found[1] if found is not None and found.lastindex else None


def given(options: Mapping[str, Value]) -> str:
    """The path; empty where none was given, or the engine has no such option."""
    return str(options.get(PROGRAM, ""))


def found(made: Program) -> str | None:
    """The path of the program that `dyno install` made, or else of one on the PATH."""
    own = made.path()
    return str(own) if own else program(made.name)


def verified(made: Program) -> str | None:
    """What `found` returns, to be run. Raises Refused if it is in the cache and may be another than was installed."""
    own = made.path()
    if own is None:
        return found(made)
    from dyno.servers.verify_program import verify

    verify(made, own)
    return str(own)


def beside(path: str, name: str) -> str | None:
    """The program of that name in the directory of another, or of what that one is a link to."""
    places = (Path(path).parent, Path(path).resolve().parent)
    return next((str(place / name) for place in places if _runs(place / name)), None)


def _absolute(text: str) -> Value:
    # A trial is at work in a directory of its own.
    return str(Path(text).expanduser().absolute()) if text else text


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _why(kind: Kind, path: str) -> str | None:
    if not Path(path).exists():
        return "there is no such file"
    if Path(path).is_dir():
        return f"it is a directory, and the path of the {kind.title}'s program in it is wanted"
    if not _runs(Path(path)):
        return "it is not executable"
    said = _said(path, kind.asked)
    if re.search(kind.told, said) is None:
        first = next(filter(None, map(str.strip, said.splitlines())), "nothing")
        return f"it is no {kind.title}; asked {' '.join(kind.asked)}, it says: {sanitize(first, SHOWN, '')}"
    version = kind.version(path)
    if version is not None and not _numbers(kind.least) <= _numbers(version) < (_numbers(kind.below) or (1 << 31,)):
        able = f"{kind.least} and later" if not kind.below else f"{kind.least} and later, before {kind.below}"
        return f"it is version {sanitize(version, SHOWN, '')}, and Dyno can run {able}"
    absent = next((name for name in kind.helpers if beside(path, name) is None), None)
    if absent is not None:
        return f"{absent} is not beside it, in {sanitize(str(Path(path).parent), SHOWN, '')}"
    user = unprivileged(*kind.users) if kind.users else None
    closed = user and shut(Path(path), user)
    return f"it runs as user {user.pw_name}, who may not enter {closed}" if user and closed else None


def _numbers(version: str) -> tuple[int, ...]:
    """Of '10.11.19': what comes after these is no number of a version's."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


@cache
def _said(path: str, words: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [path, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"{done.stdout}\n{done.stderr}"
