"""Versions of an engine beside the installed one: their names, where they come from, and their place in the cache.

`NAME@VERSION` names one: `duckdb@1.4.5` exactly, `duckdb@1.4` the newest 1.4, `duckdb@1.1..2.0` the newest of every
release line from 1.1 to 2.0, and `duckdb@all` of every one. A version that the user requests is not pinned by Dyno:
the registry's own digests are recorded when it is installed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dyno.contracts.model import UsageError
from dyno.contracts.programs import Program
from dyno.host import directories

if TYPE_CHECKING:
    from packaging.version import Version

VERSIONED = "@"
"""Sign between an engine and its version: duckdb@1.4.5."""
ALL = "all"
SPAN = ".."
MOST_UNCONFIRMED = 12
"""Versions of an engine above which a range must be confirmed."""
RECORD = "installed.json"
"""File that marks a complete installation of a version. It has what was installed, with digests."""
CATALOG = "catalog.json"
"""File with the versions that the sources of an engine had when one was last installed."""
BLOCK = 512
"""Bytes of the unit in which Linux counts the blocks of a file."""
Release = tuple[int, ...]


MACHINE = "{machine}"
"""Text in the name of an artifact for the name of the machine."""


class Wheel(NamedTuple):
    """Versions of a Python package: a library, or a server's program within one."""

    distribution: str
    """Name of the package in a registry: 'duckdb'."""
    program: str = ""
    """Path of the server's program among the installed files, as a glob pattern; empty for a library."""
    replaces: tuple[str, str] | None = None
    """A module of the standard library, and the package's own that is imported in its place."""
    earliest: str = ""
    """Earliest version that Dyno can run; empty for any."""
    below: str = ""
    """First version that this source doesn't serve; empty if there is none."""


class Maven(NamedTuple):
    """Versions of a program as an archive within a jar of a Maven repository."""

    artifact: str
    """'group:name', with `MACHINE` in place of the machine's name, if that is a part of it."""
    archive: str
    """Path of the archive in the jar, as a glob pattern: '*.txz'. Empty: the jar's own files."""
    program: str
    """Path of the server's program in the archive, as a glob pattern: 'bin/postgres'."""
    machines: Mapping[str, str] = MappingProxyType({})
    """Names of the machines that have archives, by their names in Python."""
    earliest: str = ""
    below: str = ""


class Built(NamedTuple):
    """Versions of a program that Go builds, or of a Java program in archives of a Maven repository, from where the
    pinned version comes. Proxies of Go modules need not list all versions: any other one may be named exactly."""

    pinned: Program
    earliest: str = ""
    below: str = ""


Source = Wheel | Maven | Built


class Versions(NamedTuple):
    """Where the versions of an engine come from, the preferred source first."""

    sources: tuple[Source, ...]
    line: int = 2
    """Number of leading numbers that name a release line: 2 for 1.4.x."""


class InstalledVersion(NamedTuple):
    """An installed version of an engine."""

    version: str
    home: Path
    program: Path | None
    """The server's program; None for a library."""
    digests: Mapping[str, str]
    """SHA-256 of each downloaded file, by the name of its package or archive."""

    @property
    def disk_bytes(self) -> int:
        """Bytes that it takes on the disk."""
        return sum(path.lstat().st_blocks * BLOCK for path in self.home.rglob("*"))


def root(engine: str) -> Path:
    """Returns the directory of an engine's versions, which may not exist."""
    return directories.cache() / "versions" / engine


def home(engine: str, version: str) -> Path:
    """Returns the directory of a version. Libraries are for this version of Python, so programs are as well."""
    return root(engine) / f"{version}-py{sys.version_info[0]}.{sys.version_info[1]}"


def find_installed(engine: str, version: str) -> InstalledVersion | None:
    """Returns the version, or None if it isn't completely installed."""
    place = home(engine, version)
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        record = json.loads((place / RECORD).read_text())
        program = place / record["program"] if record["program"] else None
        digests = {str(name): str(digest) for name, digest in record["digests"].items()}
        if program is None or program.exists():
            return InstalledVersion(version, place, program, digests)
    return None


def list_installed(engine: str) -> list[InstalledVersion]:
    """Returns the installed versions of an engine, the oldest first."""
    suffix = home(engine, "").name
    names = list[str]()
    # The path of the cache may be too long, for example.
    with suppress(OSError):
        names = [path.parent.name.removesuffix(suffix) for path in root(engine).glob(f"*{suffix}/{RECORD}")]
    versions = (find_installed(engine, name) for name in sort_versions(names))
    return [each for each in versions if each is not None]


def read_catalog(engine: str) -> list[str]:
    """Returns the versions that the engine's sources had at the last look; empty before the first."""
    with suppress(OSError, ValueError, TypeError):
        return [str(version) for version in json.loads((root(engine) / CATALOG).read_text())]
    return []


def release(version: str) -> Release:
    """Returns the leading numbers of a version: (1, 4, 5) for '1.4.5'."""
    numbers = list[int]()
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def release_order(version: str) -> tuple[bool, Version, str]:
    """Returns the sort key of a version. One that doesn't follow PEP 440 is ordered by its leading numbers, and comes
    last if it has none."""
    from packaging.version import InvalidVersion, Version

    try:
        return (False, Version(version), version)
    except InvalidVersion:
        numbers = release(version)
        return (not numbers, Version(".".join(map(str, numbers)) or "0"), version)


def sort_versions(versions: Iterable[str]) -> list[str]:
    """Returns the versions in the order of their releases."""
    return sorted(set(versions), key=release_order)


def is_final(version: str) -> bool:
    """Returns whether a version is neither a pre-release nor a development version."""
    from packaging.version import InvalidVersion, Version

    try:
        return not Version(version).is_prerelease
    except InvalidVersion:
        return False


def choose(engine: str, text: str, known: Iterable[str], line: int) -> list[str]:
    """Returns the versions that `text` names among the known ones, the oldest first; none if it names none.

    Raises UsageError if the text is no version and no range.
    """
    every = list(known)
    if text in every:
        return [text]
    ordered = [version for version in sort_versions(every) if is_final(version)]
    first, span, last = text.partition(SPAN)
    low, high = release(first), release(last)
    good = text == ALL or bool(low) if not span else bool(low and high)
    if not good:
        raise UsageError(
            f"engine {engine}@{text}: expected a version, such as {engine}@1.4 or 1.4.5, a range such as 1.1..2.0,"
            f" or {ALL}"
        )
    if text != ALL and not span:
        matching = [version for version in ordered if release(version)[: len(low)] == low]
        return matching[-1:]
    if span and high[: len(low)] < low[: len(high)]:
        raise UsageError(f"engine {engine}@{text}: the first version is later than the last: {last}{SPAN}{first}")
    # Patches are listed between two patches only.
    depth = max(line, min(len(low), len(high)))
    newest: dict[Release, str] = {}
    for version in ordered:
        numbers = release(version)
        if not span or (numbers[: len(low)] >= low and numbers[: len(high)] <= high):
            newest[numbers[:depth]] = version
    return list(newest.values())


def choose_installed(engine: str, text: str, line: int) -> list[InstalledVersion]:
    """Returns the installed versions that `text` names, the oldest first. Raises UsageError like `choose`."""
    here = list_installed(engine)
    named = choose(engine, text, [each.version for each in here], line)
    return [each for each in here if each.version in named]


def list_between(first: str, last: str, known: Iterable[str]) -> list[str]:
    """Returns two versions and all final ones between them, in the order of their releases."""
    every = sort_versions([first, last, *(version for version in known if is_final(version))])
    low, high = sorted((every.index(first), every.index(last)))
    return every[low : high + 1]
