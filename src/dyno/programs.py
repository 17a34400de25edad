"""A program that an engine needs: what it is made of, and where `dyno install` puts it.

How one is got may not be put here: that is `dyno.install`. A program that comes in a wheel is none of these: it is
one of the engine's requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dyno import places


@dataclass(frozen=True)
class GoModule:
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
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts by path, which the build needs and the module lacks."""


@dataclass(frozen=True)
class Jar:
    """A program of one archive for Java, with all that it depends on, which Maven fetches."""

    group: str
    artifact: str
    version: str
    sha256: str
    """Of the archive, in hexadecimal."""
    classifier: str = ""


@dataclass(frozen=True)
class Program:
    """A program, pinned to a version and to the hash of what it is made of."""

    name: str
    version: str
    source: GoModule | Jar

    @property
    def home(self) -> Path:
        """Its directory, whether or not it is there."""
        return places.cache() / "programs" / f"{self.name}-{self.version}"

    @property
    def file(self) -> str:
        """The name of the file that is run."""
        return f"{self.name}.jar" if isinstance(self.source, Jar) else self.name

    def path(self) -> Path | None:
        """Where it is; None where it was not installed, or can't be reached."""
        found = self.home / self.file
        with suppress(OSError):
            return found if found.is_file() else None
        return None
