"""What `dyno crash` found on this machine, kept so that lists and run files can say it: the latest of each engine,
as it was asked for, and tier."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.host.atomic_file import replace

if TYPE_CHECKING:
    from dyno.contracts.sample import Cell

NAMES = ("engine", "tier", "settings", "version", "verdict", "why", "traced", "model", "system")
WAYS = ("killed", "cut", "recovery", "birth", "device")
MOST = 1_000
"""Rows; the oldest go."""


def keep(cache: Path, row: Mapping[str, Any]) -> None:
    """Of a row as plain data, if it was crashed at all. Where it can't be kept it is not: the command tells it."""
    if not any(row[way] for way in WAYS):
        return
    told = {name: row[name] for name in NAMES} | {way: _tally(row[way]) for way in WAYS}
    others = [known for known in load(cache) if _key(known) != _key(row)]
    file = _file(cache)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, json.dumps([*others, told][-MOST:]).encode())


def load(cache: Path) -> list[dict[str, Any]]:
    """The rows; those that can't be read are passed over."""
    with suppress(OSError, ValueError):
        found = json.loads(_file(cache).read_text())
        if isinstance(found, list):
            return [row for row in found if _sound(row)]
    return []


def of(cache: Path, cells: Iterable[Cell]) -> list[dict[str, Any]] | None:
    """Those of the engines and tiers of a plan; None where nothing is known of them."""
    wanted = {(cell.asked, cell.tier.value) for cell in cells if cell.tier is not None}
    return [row for row in load(cache) if _key(row) in wanted] or None


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["engine"], row["tier"]


def _tally(tally: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if tally is None else {name: tally[name] for name in ("count", "outcomes", "lost")}


def _sound(row: object) -> bool:
    """As `keep` writes them: what is here goes into run files."""
    if not isinstance(row, dict) or row.keys() != {*NAMES, *WAYS}:
        return False
    words = all(isinstance(row[name], str) for name in ("engine", "tier", "verdict", "why", "model"))
    maybe = all(row[name] is None or isinstance(row[name], str) for name in ("version", "traced", "system"))
    return words and maybe and isinstance(row["settings"], dict) and all(_counted(row[way]) for way in WAYS)


def _counted(tally: object) -> bool:
    if tally is None:
        return True
    if not isinstance(tally, dict) or not isinstance(tally.get("outcomes"), dict):
        return False
    counts = [tally.get("count"), tally.get("lost"), *tally["outcomes"].values()]
    return all(type(count) is int and 0 <= count < 1 << 60 for count in counts)


def _file(cache: Path) -> Path:
    return cache / "crashes.json"
