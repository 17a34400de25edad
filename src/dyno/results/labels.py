"""Labels of a run's rows. A label is the requested engine. If the run has several versions of the engine, the version
is added; if another product answered, the label names that product. This module reads and writes no files."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from dyno.contracts.cell import Cell
from dyno.contracts.model import STAND_IN_PREFIX
from dyno.results.run import Attempt

URL = "url"
PROGRAM = "program"
"""Option that selects another program of the same server. The label then has the program's version rather than its
path."""


def set_labels(cells: Sequence[Cell], attempts: Sequence[Attempt]) -> None:
    """Sets the labels of cells whose engine name alone is ambiguous."""
    versions = {each.cell: number for each in attempts if (number := _number(each.version))}
    by_engine: dict[str, dict[str, str]] = {}
    for at, cell in enumerate(cells):
        if not cell.floor and at in versions:
            by_engine.setdefault(cell.engine, {})[cell.asked] = versions[at]
    several = {engine for engine, of in by_engine.items() if len(set(of.values())) > 1}
    several |= {cell.engine for cell in cells if PROGRAM in cell.options}
    named = {
        at: f"{cell.engine} {versions[at]}"
        for at, cell in enumerate(cells)
        if cell.engine in several and at in versions
    }
    for each in attempts:
        engine = cells[each.cell].engine
        if each.version and any(caveat.code == STAND_IN_PREFIX + engine for caveat in each.caveats):
            # The server was another product than the engine's name says: 'MariaDB 10.11.19 (as mysql)'.
            named[each.cell] = f"{each.version.partition('(')[0].strip()} (as {engine})"
    named = {at: name for at, name in named.items() if cells[at].name is None}
    short = {cells[at].asked: f"{name}{_options(cells[at], PROGRAM)}" for at, name in named.items()}
    for at, name in named.items():
        # Two programs of the same version differ only in their paths.
        alone = list(short.values()).count(short[cells[at].asked]) == 1
        object.__setattr__(cells[at], "label", short[cells[at].asked] if alone else f"{name}{_options(cells[at])}")
    # Shorten an address to 'postgresql at db.example:5432/shop' if no other row has the same short label.
    unnamed = [cell for at, cell in enumerate(cells) if cell.name is None and at not in named]
    places = {cell.asked: place for cell in unnamed if (place := _place(cell))}
    for cell in unnamed:
        place = places.get(cell.asked)
        if place is not None and list(places.values()).count(place) == 1:
            object.__setattr__(cell, "label", place)


def _place(cell: Cell) -> str | None:
    """Returns the label with the address without user, password and query; None if the row has no valid address."""
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


def _options(cell: Cell, without: str = "") -> str:
    options = {name: value for name, value in cell.options.items() if name != without}
    return Cell("", "", options, None, {}).asked


def _number(version: str | None) -> str | None:
    """Returns '15.18' for 'PostgreSQL 15.18 (psycopg 3.2.1, libpq 17.5)'."""
    match = re.search(r"(?<!\S)v?(\d\S*)", (version or "").partition("(")[0])
    return match[1] if match else None
