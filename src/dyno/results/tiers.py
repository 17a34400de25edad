"""The tier of rows on a user's own server, where it follows from the server's settings. Nothing is read or written
here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dyno.contracts.model import Tier, weakest
from dyno.contracts.sample import Cell
from dyno.results.run import Attempt


def follow(cells: Sequence[Cell], attempts: Iterable[Attempt]) -> None:
    """Sets the tier of each cell that follows its server: the weakest that its trials found. Null engines of a tier
    that no other cell has any more go with them."""
    found: dict[int, Tier] = {}
    for each in attempts:
        if each.tier is not None and cells[each.cell].follows:
            found[each.cell] = weakest((found.get(each.cell, each.tier), each.tier))
    planned = {cells[at].tier: tier for at, tier in found.items()}
    for at, tier in found.items():
        object.__setattr__(cells[at], "tier", tier)
    left = {cell.tier for cell in cells if not cell.floor}
    for cell in cells:
        if cell.floor and cell.tier not in left and cell.tier in planned:
            object.__setattr__(cell, "tier", planned[cell.tier])
