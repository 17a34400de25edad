"""How a place of a run is called: its phase, and its tier. Where nothing is stored there is none to name."""

from __future__ import annotations

from collections.abc import Sequence

from dyno.contracts.model import Tier
from dyno.report.tables import display_limits


def tier(found: Tier | str | None) -> str:
    """'tier power'; nothing where there is none."""
    return f"tier {found.value if isinstance(found, Tier) else found}" if found else ""


ACROSS = "reads of stored files do not depend on durability"
"""The caveat of a comparison across tiers."""


def tiers(found: Sequence[Tier | None]) -> str:
    """'tier power', 'across tiers volatile and process'; nothing where there is none."""
    if len(found) < 2:
        return tier(found[0]) if found else ""
    return f"across tiers {display_limits.listed([each.value for each in found if each is not None])}"


def meaning(found: Tier | None) -> str:
    return "" if found is None else found.meaning


def explained(found: Tier | None) -> str:
    """'tier power: flushed to the device before it is acknowledged'."""
    return "" if found is None else f"{tier(found)}: {found.meaning}"


_SAFETY = {
    Tier.VOLATILE: "not crash-safe",
    Tier.PROCESS: "safe from a crash of the process alone",
    Tier.POWER: "crash-safe, a loss of power included",
}


def plain(found: Tier) -> str:
    """'tier process, safe from a crash of the process alone: survives SIGKILL of the engine's process'."""
    return f"{tier(found)}, {_SAFETY[found]}: {found.meaning}"


def named(*parts: str, between: str = ", ") -> str:
    """The parts that there are."""
    return between.join(filter(None, parts))


def engine(asked: str, found: Tier | str | None) -> str:
    """'lmdb (power)'."""
    name = found.value if isinstance(found, Tier) else found
    return f"{asked} ({name})" if name else asked
