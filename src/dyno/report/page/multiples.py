"""All phases of one place at a glance: a small picture of each, engines in one order and in their colours, all on one
axis. Drawn when the page is made, as the first picture is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dyno.report.page.relative import BEYOND, Bar, looks, measured
from dyno.report.tables import display_limits, wording
from dyno.report.tables.overview import Figure, Line, Overview, Place, Ranking
from dyno.results import Run

READS = (
    "Each phase by itself: speeds as shares of the fastest's, which is the dotted line, with"
    f" {wording.LEVEL} intervals; figures as in the table above."
)


@dataclass(frozen=True)
class Small:
    """One phase."""

    phase: str
    unit: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Grid:
    view: Overview
    pictures: tuple[Small, ...]
    rest: str
    """Of phases and engines that are left out."""
    one: float = 100 / BEYOND
    """Where the fastest ends, in percent of the width."""


def grid(run: Run, views: Sequence[Overview], ranked: Mapping[Place, Ranking]) -> Grid | None:
    """Of the place that the page begins with; None where the first picture says all of it."""
    if not views:
        return None
    look = looks(run)
    shown, rest = display_limits.first(views[0].engines, display_limits.BARS, "engines", "the table has more")
    lines, others = display_limits.first(views[0].lines, display_limits.PANELS, "phases", "the table has more")
    pictures = [_small(line, shown, ranked.get(line.at), look) for line in lines]
    told = tuple(found for found in pictures if sum(bar.at is not None for bar in found.bars) > 1)
    return Grid(views[0], told, f"{rest} {others}".strip()) if len(told) > 1 else None


def _small(line: Line, engines: Sequence[str], ranking: Ranking | None, look: Mapping[str, str]) -> Small:
    bars = [_bar(name, figure, ranking, look) for name, figure in zip(engines, line.figures, strict=False) if figure]
    return Small(line.phase, line.unit, tuple(bars))


def _bar(name: str, figure: Figure, ranking: Ranking | None, look: Mapping[str, str]) -> Bar:
    written, scale = figure.value + ("?" if figure.doubts and figure.valid else ""), 100 / BEYOND
    if figure.valid and ranking is not None and name == ranking.best:
        return Bar(name, look[name], figure.standing, written, "", scale)
    seen = ranking.seen.get(name) if figure.valid and ranking is not None else None
    bar = Bar(name, look[name], "", written, figure.verdict, None)
    return measured(bar, seen.verdict if seen else None, scale)
