"""Which run files a site is of, and what each is called in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dyno.contracts.model import UsageError

LONGEST = 80


@dataclass(frozen=True)
class Found:
    path: Path
    named: bool
    """By the user; others were met in a directory, where they may also be something else."""


def find(given: Sequence[Path]) -> list[Found]:
    """The files that were named, and every *.json in and below the directories, once each. Raises UsageError."""
    found: dict[Path, Found] = {}
    for path in given:
        files = [Found(file, False) for file in _below(path)] if path.is_dir() else [Found(path, True)]
        for file in files:
            found.setdefault(file.path.resolve(), file)
    if not found:
        raise UsageError(f"{' '.join(map(str, given))}: no run file is there, that is: no *.json")
    return list(found.values())


def _below(directory: Path) -> Iterator[Path]:
    """In the order of their names. Hidden directories are passed over."""
    for place, inner, files in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if name.endswith(".json"))


class Names:
    """Gives each run a name of its own, which is also that of its page, safe in an address and on any file system."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, path: Path) -> str:
        plain = re.sub(r"[^\w.-]+", "-", path.stem, flags=re.ASCII)[:LONGEST].strip("-.") or "run"
        name, number = plain, 1
        # Some file systems take A for a.
        while name.lower() in self._taken:
            number += 1
            name = f"{plain}-{number}"
        self._taken.add(name.lower())
        return name
