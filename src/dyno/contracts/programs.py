"""A program that an engine needs: what it is made of, and where `dyno install` puts it.

How one is got may not be put here: that is `dyno.install`. A program that comes in a wheel is none of these: it is
one of the engine's requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dyno.host import directories


class GoModule(NamedTuple):
    """The source of a program, which Go builds. What it depends on is verified by the module's own go.sum."""

    path: str
    version: str
    """An exact one, such as 'v1.24.0'."""
    sum: str
    """Go's own hash of what is in the module: 'h1:...'."""
    package: str = "."
    """The package of the program in it: './cmd/name'."""
    least: str = ""
    """The earliest version of Go that builds it, for who has none."""
    files: Mapping[str, str] = {}
    """Texts by path, which the build needs and the module lacks."""


class Jar(NamedTuple):
    """A program of one archive for Java, with all that it depends on, which Maven fetches."""

    group: str
    artifact: str
    version: str
    sha256: str
    """Of the archive, in hexadecimal."""
    classifier: str = ""


class Jars(NamedTuple):
    """A program of many archives for Java: these, and all that they depend on, which Maven resolves and fetches."""

    artifacts: tuple[str, ...]
    """Each as 'group:artifact:version'; one that begins with a minus comes without what it depends on."""
    sha256: str
    """Of the list of all archives, in hexadecimal: for each, in the order of their names, a line of its own hash, two
    blanks and its name, as sha256sum prints it."""


class Program(NamedTuple):
    """A program, pinned to a version and to the hash of what it is made of."""

    name: str
    version: str
    source: GoModule | Jar | Jars

    @property
    def home(self) -> Path:
        """Its directory, whether or not it is there."""
        return directories.cache() / "programs" / f"{self.name}-{self.version}"

    @property
    def file(self) -> str:
        """The name of the file that is run, or of the directory of the archives."""
        if isinstance(self.source, Jars):
            return "jars"
        return f"{self.name}.jar" if isinstance(self.source, Jar) else self.name

    def path(self) -> Path | None:
        """Where it is; None where it was not installed, or can't be reached."""
        found = self.home / self.file
        with suppress(OSError):
            return found if found.is_dir() == isinstance(self.source, Jars) and found.exists() else None
        return None
