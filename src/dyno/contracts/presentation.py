"""A suite's own table and charts, from the file layout.toml beside the suite. They are saved in the run file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from dyno.contracts.safe_read import toml

Format: TypeAlias = Literal["count", "bytes", "kb", "ratio", "rate", "ns", "bandwidth"]


@dataclass(frozen=True)
class Column:
    """A column of a suite's own table."""

    title: str
    of: Literal["param", "phase", "fact", "facts", "rate", "operations", "bandwidth"]
    """Source of the figure: 'param', 'fact', 'facts' (all whose names begin with `name`), 'rate' (a phase's items per
    second), 'operations' (a phase's operations per second) or 'bandwidth' (a phase's bytes per second). With a column
    of 'phase', the table has a line for each phase of a cell."""
    name: str
    """Name of the parameter, fact or phase."""
    kind: Format | Literal["text"] = "text"
    """Format of a figure."""


@dataclass(frozen=True)
class Layout:
    """A suite's own table with a line for each cell. A line has figures of several phases, for readers who compare
    parameters rather than engines. Saved in the run file."""

    columns: tuple[Column, ...] = ()
    legend: tuple[str, ...] = ()
    """Explanations of the columns, one line each."""
    title: str = ""
    beside: bool = False
    """If True, the table follows the tables by phase. If False, it replaces them."""


@dataclass(frozen=True)
class Axis:
    """An axis of a chart."""

    of: Literal["param", "fact", "metric"]
    """Source of the figure. A metric is one of `stats.metric`: throughput, bandwidth, a latency."""
    name: str
    title: str = ""
    """Title with the unit. Metrics have a default title."""
    kind: Format = "count"
    """Format of a figure."""
    scale: Literal["linear", "log"] = "linear"
    marks: tuple[str, ...] = ()
    """Names of numeric facts that the chart marks by a line across, such as the size of a cache."""


@dataclass(frozen=True)
class Curve:
    """A suite's own chart: two figures of its cells plotted against each other, with a line for each engine. Saved in
    the run file."""

    name: str
    title: str
    reading: str
    """Text of a sentence or two that says what the chart shows and how to read it."""
    x: Axis
    y: Axis
    line: str = ""
    """Name of a parameter; the chart gets a line for each of its values."""
    point: str = ""
    """Name of the parameter that orders and labels the points of a line."""
    phases: tuple[str, ...] = ()
    """Phases that get the chart; all if empty."""


@dataclass(frozen=True)
class Presentation:
    """The file layout.toml beside a suite's module."""

    layout: Layout | None = None
    charts: tuple[Curve, ...] = ()

    @staticmethod
    @cache
    def load(module: str) -> Presentation:
        """Returns the presentation of the suite in this module; empty without a file. Raises UsageError."""
        # Import here: it takes long, and listing suites doesn't need it.
        from msgspec import convert

        place = getattr(sys.modules[module], "__file__", None)
        file = place and Path(place).with_name("layout.toml")
        if file and file.exists():
            return convert(toml(file), Presentation)
        return Presentation()


class InFile:
    """An attribute of a suite that its file layout.toml has, unless the suite sets it. Read when it is first used."""

    def __set_name__(self, suite: type, name: str) -> None:
        self._name = name

    def __get__(self, suite: object, kind: type) -> object:
        return getattr(Presentation.load(kind.__module__), self._name)
