"""The run files of a site, and the entry of each run in the site's list."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from dyno.contracts.model import UsageError
from dyno.report.tables import heading, units, wording
from dyno.results import Run

LONGEST_NAME = 80


@dataclass(frozen=True)
class RunFile:
    path: Path
    named: bool
    """Whether the user named the file. Files found in a directory may be something else."""


def find(paths: Sequence[Path]) -> list[RunFile]:
    """Returns the named files, and every *.json in and below the directories, in alphabetical order. Hidden
    directories are skipped. Raises UsageError if there are none."""
    matches: dict[Path, RunFile] = {}
    for path in paths:
        if not path.is_dir():
            matches.setdefault(path.resolve(), RunFile(path, True))
        for place, directories, names in os.walk(path):
            directories[:] = sorted(name for name in directories if not name.startswith("."))
            for file in (Path(place, name) for name in sorted(names) if name.endswith(".json")):
                matches.setdefault(file.resolve(), RunFile(file, False))
    if not matches:
        raise UsageError(f"{' '.join(map(str, paths))}: no run file (*.json) found")
    return list(matches.values())


def unique_name(path: Path, taken: set[str]) -> str:
    """Returns a name for a run that is not `taken` yet, and adds it. It is also the page's name, and is safe in an
    address and on any file system."""
    plain = re.sub(r"[^\w.-]+", "-", path.stem, flags=re.ASCII)[:LONGEST_NAME].strip("-.") or "run"
    name, number = plain, 1
    # Compared in lower case, because some file systems ignore case.
    while name.lower() in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name.lower())
    return name


@dataclass(frozen=True)
class Entry:
    """A run in the list."""

    name: str
    page: str
    """Path of the page in the site."""
    suite: str
    created: str
    """Time in UTC, in the format of ISO 8601; empty if unknown."""
    engines: tuple[str, ...]
    tiers: tuple[str, ...]
    trials: str
    machine: str
    """Description of the machine, without facts that an update changes, so that runs of the same machine have the
    same text."""
    system: str
    dyno: str
    answer: str
    """The headline of the run's answer."""
    incomplete: str
    awake: bool
    """Whether the cores were kept awake."""

    @property
    def day(self) -> str:
        return self.created.replace("T", " ")[:16] or units.UNKNOWN


def entry(run: Run, name: str) -> Entry:
    cells = [cell for cell in run.cells if not cell.floor] or list(run.cells)
    answers = wording.answers(run)
    answer = answers[0].partition(". ")[0].removesuffix(".") if answers else ""
    system = run.header.get("host", {}).get("system") or {}
    parts = (system.get("kernel") and f"kernel {system['kernel']}", system.get("os"))
    created = ""
    with suppress(KeyError, ValueError):
        time = datetime.fromisoformat(str(run.header["created"]))
        # Old run files lack the zone, but their times are in UTC.
        aware = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
        created = aware.astimezone(timezone.utc).isoformat(timespec="seconds")
    return Entry(
        name=name,
        page=f"runs/{name}.html",
        suite=str(run.plan["suite"]),
        created=created,
        engines=tuple(heading.engines(run)),
        tiers=tuple(dict.fromkeys(cell.tier_name for cell in cells if cell.tier_name)),
        trials=units.count(run.blocks),
        machine=heading.machine(run),
        system=", ".join(filter(None, parts)) or units.UNKNOWN,
        dyno=str(run.header.get("dyno") or units.UNKNOWN),
        answer=f"{answer or 'No engine has a valid figure: there is no answer'}.",
        incomplete=heading.unfinished(run),
        awake=bool(run.plan.get("awake")),
    )
