"""What the list of runs says of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from dyno.report.tables import heading, units, wording
from dyno.results import Run


@dataclass(frozen=True)
class Entry:
    """A run in the list."""

    name: str
    page: str
    """Its address in the site."""
    suite: str
    created: str
    """UTC, ISO 8601, or nothing where it is not known."""
    engines: tuple[str, ...]
    tiers: tuple[str, ...]
    trials: str
    machine: str
    """By which runs of one machine know each other: without what an update changes."""
    system: str
    dyno: str
    answer: str
    """The headline."""
    incomplete: str
    awake: bool
    """Whether the cores were kept awake."""

    @property
    def day(self) -> str:
        return self.created.replace("T", " ")[:16] or units.UNKNOWN


def entry(run: Run, name: str) -> Entry:
    cells = [cell for cell in run.cells if not cell.floor] or list(run.cells)
    answers = wording.answers(run)
    system = run.header.get("host", {}).get("system") or {}
    parts = (system.get("kernel") and f"kernel {system['kernel']}", system.get("os"))
    return Entry(
        name=name,
        page=f"runs/{name}.html",
        suite=str(run.plan["suite"]),
        created=_created(run),
        engines=tuple(heading.engines(run)),
        tiers=tuple(dict.fromkeys(cell.tier_name for cell in cells if cell.tier_name)),
        trials=units.count(run.blocks),
        machine=heading.machine(run),
        system=", ".join(part for part in parts if part) or units.UNKNOWN,
        dyno=str(run.header.get("dyno") or units.UNKNOWN),
        answer=_first_sentence(answers[0]) if answers else "No engine has a valid figure: there is no answer.",
        incomplete=heading.unfinished(run),
        awake=bool(run.plan.get("awake")),
    )


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".") + "."


def _created(run: Run) -> str:
    try:
        found = datetime.fromisoformat(str(run.header["created"]))
    except (KeyError, ValueError):
        return ""
    # A run of an old Dyno may not tell its zone; all are in UTC.
    aware = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
    return aware.astimezone(timezone.utc).isoformat(timespec="seconds")
