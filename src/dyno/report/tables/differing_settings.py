"""In what rows of one engine differ: its settings as they took effect, read back from it. A row that was asked for
without settings has those of its tier, which need not be what its vendor ships."""

from __future__ import annotations

from dyno.contracts.model import Tier, Value
from dyno.report.tables.display_limits import listed
from dyno.results import Run

MOST = 8
"""Lines; the run file has every setting."""


def lines(run: Run) -> list[str]:
    """A line for each setting that rows of an engine, at one tier, have not in common: 'sqlite: synchronous is normal
    with sqlite:set.synchronous=normal, off with sqlite'."""
    rows: dict[tuple[str, Tier | None], dict[str, dict[str, Value | None]]] = {}
    for attempt in run.attempts:
        cell = run.cells[attempt.cell]
        if attempt.settings and not cell.floor:
            rows.setdefault((cell.engine, cell.tier), {})[cell.label] = dict(attempt.settings)
    found = dict.fromkeys(
        f"{engine}: {name} is {listed([f'{_text(of.get(name))} with {row}' for row, of in mine.items()])}"
        for (engine, _), mine in rows.items()
        for name in dict.fromkeys(name for of in mine.values() for name in of)
        if len({_text(of.get(name)) for of in mine.values()}) > 1
    )
    return list(found)[:MOST]


def _text(value: Value | None) -> str:
    if value is None:
        return "not known"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
