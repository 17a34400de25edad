"""The first picture of the page, beside the answer: how fast each engine is as a multiple of the fastest.

Drawn when the page is made, since it has to be seen before any program runs. Its lengths are shares of the width, so
that it fits a telephone and a large screen; its texts are the page's own, and none is cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dyno.report.charts import theme
from dyno.report.tables import display_limits, heading, units, wording
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats.answer import Answer
from dyno.stats.verdict import Verdict

BEYOND = 1.12
"""Of the largest point: how far the axis goes. Intervals that go further are cut, or they would squash the others."""

READS = (
    "Speed as a multiple of the fastest's, block by block. Lines and brackets:"
    f" {wording.LEVEL} intervals; an arrow where one goes on."
)


@dataclass(frozen=True)
class Bar:
    """One engine. Lengths are percent of the width."""

    name: str
    colour: str
    mark: str
    """'fastest', 'equally fast', "can't tell", or nothing."""
    figure: str
    """With its interval, where there is one."""
    verdict: str
    at: float | None
    low: float | None = None
    high: float | None = None
    cut: bool = False
    """Whether the interval goes on beyond the end."""


@dataclass(frozen=True)
class Picture:
    """One answer: of one tier, combination of parameters and temperature."""

    title: str
    bars: tuple[Bar, ...]
    rest: str
    """Of engines that are left out."""
    one: float
    """Where the fastest ends, in percent of the width."""


def pictures(run: Run, names: Mapping[str, str] | None = None) -> list[Picture]:
    """Of the first answers that compare something: as many as have room beside them."""
    changing, look = varying(run), looks(run)
    several = [found for found in wording.called(run, names) if found.others]
    return [_picture(found, changing, look) for found in several[: display_limits.PICTURES]]


def looks(run: Run) -> dict[str, str]:
    """The colour of each engine."""
    colours = theme.scale(heading.engines(run), "color")
    return dict(zip(colours["domain"], colours["range"], strict=True))


def _picture(found: Answer, changing: Sequence[str], look: Mapping[str, str]) -> Picture:
    shown, rest = display_limits.first(found.others, display_limits.BARS - 1, "others", "the overview has more")
    points = [1.0, *(seen.ratio for _, seen in shown if seen.ratio is not None)]
    scale = 100 / (max(points) * BEYOND)
    marks = wording.ahead(found)
    name = found.best.label
    bars = [Bar(name, look[name], marks.get(name, ""), units.ratio(1), "" if marks else "the best figures", scale)]
    bars += [
        measured(Bar(cell.label, look[cell.label], marks.get(cell.label, ""), *_words(seen), None), seen, scale)
        for cell, seen in shown
    ]
    return Picture(wording.place(found, changing), tuple(bars), rest, scale)


def _words(seen: Verdict) -> tuple[str, str]:
    """The figure, with its interval where there is one, and the verdict."""
    reach = "" if seen.low is None else f" [{wording.interval(seen)}]"
    return wording.point(seen) + reach, wording.verdict(seen)


def measured(bar: Bar, seen: Verdict | None, scale: float) -> Bar:
    """With its lengths, `scale` percent of the width to the fastest's; as it is where there is no interval."""
    if seen is None or seen.ratio is None or seen.low is None or seen.high is None:
        return bar
    at, low, high = (min(part * scale, 100.0) for part in (seen.ratio, seen.low, seen.high))
    return replace(bar, at=at, low=low, high=high, cut=seen.high * scale > 100)
