"""Labels of a run's rows: the engine as requested, with its version if the run has several versions of it, or the
product that answered if that is another one. Reads and writes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from dyno.contracts.model import STAND_IN_PREFIX
from dyno.contracts.sample import Cell
from dyno.results.run import Attempt

URL = "url"
PROGRAM = "program"
"""The option that names another program of the same server: its version says more than where it is."""


def give(cells: Sequence[Cell], attempts: Sequence[Attempt]) -> None:
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
    } | _other_products(cells, attempts)
    named = {at: name for at, name in named.items() if cells[at].name is None}
    short = {cells[at].asked: f"{name}{_options(cells[at], PROGRAM)}" for at, name in named.items()}
    for at, name in named.items():
        # Of two programs of one version, where they are is all that tells them apart.
        alone = list(short.values()).count(short[cells[at].asked]) == 1
        object.__setattr__(cells[at], "label", short[cells[at].asked] if alone else f"{name}{_options(cells[at])}")
    _give_places([cell for at, cell in enumerate(cells) if cell.name is None and at not in named])


def _give_places(unnamed: Sequence[Cell]) -> None:
    """'postgresql at db.example:5432/shop' in place of a whole address, if that tells the row from all others."""
    short = {cell.asked: place for cell in unnamed if (place := _place(cell))}
    for cell in unnamed:
        place = short.get(cell.asked)
        if place is not None and list(short.values()).count(place) == 1:
            object.__setattr__(cell, "label", place)


def _place(cell: Cell) -> str | None:
    """Without user, password and query. None if the row has no address that can be read."""
    text = str(cell.options.get(URL, ""))
    try:
        address = urlsplit(text)
        host, port = address.hostname, address.port
    except ValueError:
        return None
    if "://" not in text or not host:
        return None
    host = f"[{host}]" if ":" in host else host
    return f"{cell.engine} at {host}{'' if port is None else f':{port}'}{address.path}{_options(cell, URL)}"


def _other_products(cells: Sequence[Cell], attempts: Iterable[Attempt]) -> dict[int, str]:
    """'MariaDB 10.11.19 (as mysql)' for each cell whose server was another product than its engine's name says."""
    return {
        each.cell: f"{each.version.partition('(')[0].strip()} (as {engine})"
        for each in attempts
        if each.version
        and STAND_IN_PREFIX + (engine := cells[each.cell].engine) in (caveat.code for caveat in each.caveats)
    }


def _options(cell: Cell, without: str = "") -> str:
    given = {name: value for name, value in cell.options.items() if name != without}
    return Cell("", "", given, None, {}).asked


def _number(version: str | None) -> str | None:
    """'15.18' of 'PostgreSQL 15.18 (psycopg 3.2.1, libpq 17.5)'."""
    found = re.search(r"(?<!\S)v?(\d\S*)", (version or "").partition("(")[0])
    return found[1] if found else None
