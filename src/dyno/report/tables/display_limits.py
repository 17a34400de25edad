"""How much of a large run people are shown. Pictures, pages and sentences have limits, and say what they leave out
and where to find it. JSON, CSV, Parquet, Markdown and the tables of `dyno show` and `dyno compare` are complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ROWS = 40
"""Rows of one panel of a chart: bars, or engines with lines."""
PANELS, FEW_PANELS = 60, 8
"""Panels of a picture: with more than the first, it has as many as the second."""
MARKS = 2_000
"""Bars, points or curves of a picture: if all panels together have more, it has few panels."""
NOTES = 40
"""Lines below a picture."""
RATIOS = 20_000
"""Ratios of a page; beyond, only those against the best of each place."""
CURVES = 2_000
"""Curves of a page with all their points; beyond, each has only the points that are marked."""
ANSWERS = 20
"""Answers that stand open on a page; further ones are folded."""
PICTURES, BARS = 3, 8
"""Answers with a picture besides the first, and bars in one."""
VIEWS = 40
"""Tables of a page's overview, and engines in one of them."""
RESULTS = 2_000
"""Rows of all tables of results of a page together."""
FEWEST_RESULTS = 50
"""Rows of one such table, at least."""
ENTRIES = 200
"""Entries of any other table or list of a page."""
LINES = 1_000
"""Lines of a chart's table on a page."""
NAMES = 20
"""Names in a sentence."""


def first(of: Sequence[T], most: int, noun: str, where: str) -> tuple[list[T], str]:
    """The first of a sequence, and a sentence about the rest: empty if there is none."""
    rest = f"The first {most:,} of {len(of):,} {noun}: {where}." if len(of) > most else ""
    return list(of[:most]), rest


def listed(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and 980 more'."""
    if len(names) > NAMES:
        return f"{', '.join(names[: NAMES - 1])} and {len(names) - NAMES + 1:,} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
