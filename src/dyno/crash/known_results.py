"""Cache of results of `dyno crash` on this machine: the latest row of each engine and tier, for lists and run files.

`dyno list` imports this module, so it must not import slow modules such as msgspec.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.value_types import JsonMapping
from dyno.host.filesystem import replace

if TYPE_CHECKING:
    from dyno.contracts.cell import Cell

NAMES = ("engine", "tier", "verdict", "why", "model", "version", "traced", "system", "settings")
WAYS = ("killed", "cut", "recovery", "birth", "device")
TALLY = ("count", "outcomes", "lost")
FILE = "crashes.json"
CachedRow = JsonMapping
"""A row as `CrashRow.data` returns it, or a part of it, as plain JSON."""
MOST_ROWS = 1_000
"""Limit of cached rows. The oldest rows are dropped first."""


def keep(cache: Path, row: CachedRow) -> None:
    """Caches a row (as plain data), unless the engine was not crashed at all. Ignores a cache that can't be
    written."""
    if not any(row[way] for way in WAYS):
        return
    tallies = {way: row[way] and {name: row[way][name] for name in TALLY} for way in WAYS}
    others = [other for other in load(cache) if _key(other) != _key(row)]
    rows = [*others, {name: row[name] for name in NAMES} | tallies]
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        replace(cache / FILE, json.dumps(rows[-MOST_ROWS:]).encode())


def load(cache: Path) -> Sequence[CachedRow]:
    """Returns the cached rows without those of another version of Dyno."""
    with suppress(OSError, ValueError):
        rows = json.loads((cache / FILE).read_text())
        if isinstance(rows, list):
            return [row for row in rows if isinstance(row, dict) and row.keys() == {*NAMES, *WAYS}]
    return []


def load_results(cache: Path, cells: Iterable[Cell]) -> Sequence[CachedRow] | None:
    """Returns the cached rows for the engines and tiers of a plan, or None if there are none."""
    wanted = {(cell.asked, cell.tier.value) for cell in cells if cell.tier is not None}
    return [row for row in load(cache) if _key(row) in wanted] or None


def _key(row: CachedRow) -> tuple[str, str]:
    return row["engine"], row["tier"]
