"""Names of rows and tables (phase, engine, tier and parameters), and limits on how much of a large run is shown.

Pictures, pages and sentences have limits. They say what they leave out and where to find it. JSON, CSV, Parquet,
Markdown and the tables of `dyno show` and `dyno compare` are complete.
"""

from collections.abc import Sequence
from typing import TypeVar

from dyno.contracts.model import Tier

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


def take_first(of: Sequence[T], most: int, noun: str, where: str) -> tuple[list[T], str]:
    """Returns the first entries of a sequence, and a sentence about the rest, which is empty if there is no rest."""
    if len(of) > most:
        rest = f"The first {most:,} of {len(of):,} {noun}: {where}."
    else:
        rest = ""
    return list(of[:most]), rest


def join_names(names: Sequence[str]) -> str:
    """Joins names: 'a', 'a and b', 'a, b and 980 more'."""
    if len(names) > NAMES:
        return f"{', '.join(names[: NAMES - 1])} and {len(names) - NAMES + 1:,} more"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


ACROSS = "reads of stored files do not depend on durability"
"""The caveat of a comparison across tiers."""
_SAFETY = {
    Tier.VOLATILE: "not crash-safe",
    Tier.PROCESS: "safe from a crash of the process alone",
    Tier.POWER: "crash-safe, a loss of power included",
}


def tier(of: Tier | str | None) -> str:
    """Returns 'tier power'; empty for a suite that stores nothing."""
    if of:
        return f"tier {of.value if isinstance(of, Tier) else of}"
    return ""


def tiers(of: Sequence[Tier | None]) -> str:
    """Returns 'tier power' or 'across tiers volatile and process'; empty for a suite that stores nothing."""
    if len(of) < 2:
        if of:
            return tier(of[0])
        return ""
    return f"across tiers {join_names([each.value for each in of if each is not None])}"


def meaning(of: Tier | None) -> str:
    if of is None:
        return ""
    return of.meaning


def explain_tier(of: Tier | None) -> str:
    """Returns 'tier power: flushed to the device before it is acknowledged'."""
    if of is None:
        return ""
    return f"{tier(of)}: {of.meaning}"


def plain(of: Tier) -> str:
    """Returns 'tier process, safe from a crash of the process alone: survives SIGKILL of the engine's process'."""
    return f"{tier(of)}, {_SAFETY[of]}: {of.meaning}"


def join_parts(*parts: str, between: str = ", ") -> str:
    """Joins the parts that are not empty."""
    return between.join(filter(None, parts))


def engine(name: str, at: Tier | str | None) -> str:
    """Returns 'lmdb (power)'."""
    tier_name = at
    if isinstance(at, Tier):
        tier_name = at.value
    if tier_name:
        return f"{name} ({tier_name})"
    return name
