"""Published experiments as data: each a plan that repeats it, and the figures that it printed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from dyno.model import UsageError
from dyno.settings import unknown

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
class PublishedLine:
    """One line of a published table that has figures of several phases."""

    params: Mapping[str, str | int]
    """Of our cell that does the same."""
    figures: Mapping[str, str | float]
    """By the titles of the suite's own table; as they were printed where they have a unit."""


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
    """Of a table with a phase in each line; there are either these or `lines`."""
    lines: tuple[PublishedLine, ...]
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
    rows = tuple(PublishedRow(*row) for row in data.pop("rows", ()))
    params, columns = data.pop("params", ()), data.pop("columns", ())
    lines = tuple(_line(dict(zip(columns, line, strict=True)), params) for line in data.pop("lines", ()))
    return Experiment(name=name, rows=rows, lines=lines, notes=tuple(data.pop("notes")), **data)


def _line(cells: Mapping[str, Any], params: Sequence[str]) -> PublishedLine:
    figures = {name: value for name, value in cells.items() if name not in params}
    return PublishedLine({name: cells[name] for name in params}, figures)
