"""Names of rows and tables: phase, engine, tier and parameters."""

from collections.abc import Sequence

from dyno.contracts.model import Tier
from dyno.report.tables import display_limits

ACROSS = "reads of stored files do not depend on durability"
"""The caveat of a comparison across tiers."""
_SAFETY = {
    Tier.VOLATILE: "not crash-safe",
    Tier.PROCESS: "safe from a crash of the process alone",
    Tier.POWER: "crash-safe, a loss of power included",
}


def tier(of: Tier | str | None) -> str:
    """Returns 'tier power'; empty for a suite that stores nothing."""
    return f"tier {of.value if isinstance(of, Tier) else of}" if of else ""


def tiers(of: Sequence[Tier | None]) -> str:
    """Returns 'tier power' or 'across tiers volatile and process'; empty for a suite that stores nothing."""
    if len(of) < 2:
        return tier(of[0]) if of else ""
    return f"across tiers {display_limits.listed([each.value for each in of if each is not None])}"


def meaning(of: Tier | None) -> str:
    return "" if of is None else of.meaning


def explained(of: Tier | None) -> str:
    """Returns 'tier power: flushed to the device before it is acknowledged'."""
    return "" if of is None else f"{tier(of)}: {of.meaning}"


def plain(of: Tier) -> str:
    """Returns 'tier process, safe from a crash of the process alone: survives SIGKILL of the engine's process'."""
    return f"{tier(of)}, {_SAFETY[of]}: {of.meaning}"


def named(*parts: str, between: str = ", ") -> str:
    """Joins the parts that are not empty."""
    return between.join(filter(None, parts))


def engine(name: str, at: Tier | str | None) -> str:
    """Returns 'lmdb (power)'."""
    tier_name = at.value if isinstance(at, Tier) else at
    return f"{name} ({tier_name})" if tier_name else name
