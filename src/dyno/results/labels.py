"""What the rows of a run are called by people: as they were asked for, and with the engine's version where a run has
several programs or versions of one. Nothing is read or written here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dyno.measured import Cell
from dyno.results.run import Attempt

PROGRAM = "program"
"""The option that names another program of the same server: its version says more than where it is."""


def give(cells: Sequence[Cell], attempts: Iterable[Attempt]) -> None:
    """Sets the label of those that need one."""
    versions = {each.cell: number for each in attempts if (number := _number(each.version))}
    told: dict[str, dict[str, str]] = {}
    for at, cell in enumerate(cells):
        if not cell.floor and at in versions:
            told.setdefault(cell.engine, {})[cell.asked] = versions[at]
    several = {engine for engine, of in told.items() if len(set(of.values())) > 1}
    several |= {cell.engine for cell in cells if PROGRAM in cell.options}
    named = {
        at: f"{cell.engine} {versions[at]}"
        for at, cell in enumerate(cells)
        if cell.engine in several and at in versions
    }
    short = {cells[at].asked: f"{name}{_options(cells[at], PROGRAM)}" for at, name in named.items()}
    for at, name in named.items():
        # Of two programs of one version, where they are is all that tells them apart.
        alone = list(short.values()).count(short[cells[at].asked]) == 1
        object.__setattr__(cells[at], "label", short[cells[at].asked] if alone else f"{name}{_options(cells[at])}")


def _options(cell: Cell, without: str = "") -> str:
    given = {name: value for name, value in cell.options.items() if name != without}
    return Cell("", "", given, None, {}).asked


def _number(version: str | None) -> str | None:
    """'15.18' of 'PostgreSQL 15.18 (psycopg 3.2.1, libpq 17.5)'."""
    found = re.search(r"(?<!\S)v?(\d\S*)", (version or "").partition("(")[0])
    return found[1] if found else None
