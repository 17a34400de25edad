"""Limits on how much of a large run is shown to people. Pictures, pages and sentences have limits. They say what they
leave out and where to find it. JSON, CSV, Parquet, Markdown and the tables of `dyno show` and `dyno compare` are
complete."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ROWS = 40
"""Rows of one panel of a chart: bars, or engines with lines."""
PANELS, FEW_PANELS = 60, 8
"""Panels of a picture. If a picture would have more than PANELS, it has FEW_PANELS."""
MARKS = 2_000
"""Bars, points or curves of a picture. If all panels together have more, the picture has FEW_PANELS panels."""
NOTES = 40
"""Lines below a picture."""
RATIOS = 20_000
"""Ratios of a page. If there are more, only those to the best of each place are shown."""
CURVES = 2_000
"""Curves of a page that have all their points. If there are more, each has only the marked points."""
ANSWERS = 20
"""Answers that a page shows unfolded; further ones are folded."""
PICTURES, BARS = 3, 8
"""Answers with a picture, and bars of a picture."""
VIEWS = 40
"""Tables of a page's overview, and engines in one of them."""
RESULTS = 2_000
"""Rows of all tables of results of a page together."""
FEWEST_RESULTS = 50
"""Minimum limit of rows of one table of results."""
ENTRIES = 200
"""Entries of any other table or list of a page."""
LINES = 1_000
"""Lines of a chart's table on a page."""
NAMES = 20
"""Names in a sentence."""


def first(of: Sequence[T], most: int, noun: str, where: str) -> tuple[list[T], str]:
    """Returns the first entries of a sequence, and a sentence about the rest, which is empty if there is no rest."""
    rest = f"The first {most:,} of {len(of):,} {noun}: {where}." if len(of) > most else ""
    return list(of[:most]), rest


def listed(names: Sequence[str]) -> str:
    """Joins names: 'a', 'a and b', 'a, b and 980 more'."""
    if len(names) > NAMES:
        return f"{', '.join(names[: NAMES - 1])} and {len(names) - NAMES + 1:,} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
