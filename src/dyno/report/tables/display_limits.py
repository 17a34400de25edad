"""How much of a large run a person is shown: pictures, pages and sentences have limits, and say what they leave out
and where it is. JSON, CSV, Parquet, Markdown and the tables of `dyno show` and `dyno compare` have all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ROWS = 40
"""Of one panel of a chart: bars, or engines with lines."""
PANELS, FEW_PANELS = 60, 8
"""Of a picture: where there are more than the first, it has so many as the second."""
MARKS = 2_000
"""Bars, points or curves of a picture: where all panels together have more, it has few of them."""
NOTES = 40
"""Lines under a picture."""
RATIOS = 20_000
"""Of a page; beyond, only those against the best of each place."""
CURVES = 2_000
"""Of a page, with all their points; beyond, each has those points only that are marked."""
ANSWERS = 20
"""That stand open on a page; further ones are folded in."""
PICTURES, BARS = 3, 8
"""Answers that have a picture beside the first, and bars in one."""
VIEWS = 40
"""Tables of the overview of a page, and engines in one of them."""
RESULTS = 2_000
"""Rows of all tables of results of a page together."""
FEWEST_RESULTS = 50
"""Rows of one such table at least."""
ENTRIES = 200
"""Of any other table or list of a page."""
LINES = 1_000
"""Of a chart's table on a page."""
NAMES = 20
"""In a sentence."""


def first(of: Sequence[T], most: int, what: str, where: str) -> tuple[list[T], str]:
    """So many of them, and what is to be said of the rest: nothing where that is all."""
    said = f"The first {most:,} of {len(of):,} {what}: {where}." if len(of) > most else ""
    return list(of[:most]), said


def listed(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and 980 more'."""
    if len(names) > NAMES:
        return f"{', '.join(names[: NAMES - 1])} and {len(names) - NAMES + 1:,} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
