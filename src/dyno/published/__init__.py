"""Published experiments as data: each a plan that repeats it, and the figures that it printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from dyno.model import UsageError, unknown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class PublishedRow:
    """One line of a published table."""

    engine: str
    """Our engine of the same kind; it may not be here yet."""
    published_as: str
    phase: str
    items: int
    seconds: float
    per_second: float


@dataclass(frozen=True)
class Experiment:
    """A published experiment."""

    name: str
    title: str
    author: str
    year: int
    machine: str
    notes: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    plan: Mapping[str, Any]
    """As in a plan file."""

    @property
    def citation(self) -> str:
        return f"{self.author}, {self.title}, {self.year}"


def names() -> list[str]:
    """The experiments that there are."""
    found = (entry.name for entry in files(__package__).iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def experiment(name: str) -> Experiment:
    """Raises UsageError, with the nearest name, for one that is not there."""
    if name not in names():
        raise UsageError(unknown("experiment", name, names()))
    data = tomllib.loads((files(__package__) / f"{name}.toml").read_text())
    rows = tuple(PublishedRow(*row) for row in data.pop("rows"))
    return Experiment(name=name, rows=rows, notes=tuple(data.pop("notes")), **data)
