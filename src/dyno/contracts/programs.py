"""Programs that `dyno install` builds or fetches for an engine: their pinned source and where they are installed.

A program that is available as a wheel is a pip requirement of its engine instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dyno.host import directories


class GoModule(NamedTuple):
    """The source of a Go program. The module's own go.sum verifies its dependencies."""

    path: str
    version: str
    """An exact version: 'v1.24.0'."""
    sum: str
    """Go's hash of the module's content: 'h1:...'. Empty for a version that is not pinned."""
    package: str = "."
    """The package of the program in the module: './cmd/name'."""
    least: str = ""
    """The earliest version of Go that can build it."""
    files: Mapping[str, str] = {}
    """Files that the module lacks, added before the build: text by path."""


class Jars(NamedTuple):
    """A Java program in one or many archives: the listed ones and their dependencies. Maven resolves and fetches
    them."""

    artifacts: tuple[str, ...]
    """Each as 'group:artifact:version'; a leading minus excludes the dependencies of that archive."""
    sha256: str
    """SHA-256, in hexadecimal, of the output of `sha256sum *` for all archives: a line of hash, two blanks and file
    name for each, sorted by name. Empty for a version that is not pinned."""


class Program(NamedTuple):
    """A program, pinned to a version and to the hash of its source."""

    name: str
    version: str
    source: GoModule | Jars

    def change_version(self, version: str) -> Program:
        """Returns the program in another version, which is not pinned."""
        source = self.source
        if isinstance(source, GoModule):
            files = {path: text.replace(self.version, version) for path, text in source.files.items()}
            return Program(self.name, version, source._replace(version=f"v{version}", sum="", files=files))
        artifacts = tuple(each.replace(f":{self.version}", f":{version}") for each in source.artifacts)
        return Program(self.name, version, Jars(artifacts, sha256=""))

    @property
    def home(self) -> Path:
        """The program's directory in the cache, whether or not it exists."""
        return directories.cache() / "programs" / f"{self.name}-{self.version}"

    @property
    def file(self) -> str:
        """Name of the file to run, or of the directory with the archives."""
        if isinstance(self.source, Jars):
            return "jars"
        return self.name

    def path(self) -> Path | None:
        """Returns the installed file or directory; None if it is missing or unreadable."""
        path = self.home / self.file
        with suppress(OSError):
            if path.is_dir() == isinstance(self.source, Jars) and path.exists():
                return path
            return None
        return None
