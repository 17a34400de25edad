"""What crashes have shown of a run's tiers, beside what is declared of them: a line for each, in every legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dyno.report.tables import units

if TYPE_CHECKING:
    from dyno.results import Run

Row = Mapping[str, Any]
WAYS = ("killed", "cut", "recovery", "birth", "device")


def evidence(run: Run) -> list[str]:
    """A line for each engine and tier of a run that had been crashed on its machine, when it was begun."""
    return [_evidence(row) for row in run.header.get("crashed") or ()]


def _evidence(row: Row) -> str:
    settings = units.params({name: word(value) for name, value in (row.get("settings") or {}).items()})
    facts = [
        f"declared {settings}" if settings else "",
        f"traced: {row['traced']}" if row.get("traced") else "",
        *(_ways(row)),
    ]
    name = f"{row['engine']}, tier {row['tier']}" + (f" ({row['version']})" if row.get("version") else "")
    return f"crashed here: {name}: {'; '.join(filter(None, facts))}"


def _ways(row: Row) -> Iterator[str]:
    """'killed 100: 100 ok', 'cut 1,000 (ext4): 1,000 ok'."""
    beside = {"cut": row.get("model"), "device": row.get("system")}
    for way in WAYS:
        if tally := row.get(way):
            where = f" ({beside[way]})" if beside.get(way) else ""
            yield f"{way} {units.count(tally['count'])}{where}: {outcomes(tally)}"


def outcomes(tally: Row | None) -> str:
    """'200 ok', '162 ok, 38 lost (1)'."""
    if tally is None:
        return units.UNKNOWN
    return ", ".join(
        f"{count} {outcome}" + (f" ({tally['lost']})" if outcome == "lost" else "")
        for outcome, count in tally["outcomes"].items()
    )


def word(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value
