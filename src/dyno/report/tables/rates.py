"""Of runs at a rate: whether each engine held it, and how long its answers then took. Which of two is the faster is
said elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyno.report.tables import row_titles, units
from dyno.report.tables.display_limits import listed
from dyno.report.tables.table import Group, Row, varying
from dyno.results import Run

MOST = 20
"""Lines; the tables have every row."""
BEHIND = "overload"
"""The doubt of a row that did not hold its rate."""


def lines(run: Run, found: Sequence[Group], names: Mapping[str, str]) -> list[str]:
    """A line for each phase, tier and combination of parameters that a rate was asked of; `names`: of phases."""
    others = [name for name in varying(run) if name != "rate"]
    told: dict[str, list[Row]] = {}
    for row in (row for group in found for row in group.rows if _paced(row)):
        cell = row.summary.cell
        params = units.params({name: cell.params[name] for name in others})
        asked = f"{units.rate(float(cell.params['rate']))} {row.summary.unit}/s"
        where = row_titles.named(row_titles.tier(cell.tier), params and f"with {params}", between=" ")
        phase = names.get(row.summary.phase, row.summary.phase)
        told.setdefault(row_titles.named(f"At {asked} in {phase}", where), []).append(row)
    made = [f"{where}: {_said(rows)}." for where, rows in told.items()]
    return made[:MOST]


def _paced(row: Row) -> bool:
    asked = row.summary.cell.params.get("rate")
    timed = row.summary.valid and row.summary.response_ns["p99"] is not None
    return timed and isinstance(asked, (int, float)) and not row.summary.cell.floor


def _said(rows: Sequence[Row]) -> str:
    behind = [row for row in rows if any(doubt.code == BEHIND for doubt in row.doubts)]
    held = [f"{row.summary.cell.label} ({_p99(row)})" for row in rows if row not in behind]
    fell = [f"{row.summary.cell.label} ({_p99(row)}: {_share(row)})" for row in behind]
    parts = [f"{how} by {listed(of)}" for how, of in (("held", held), ("not held", fell)) if of]
    return "; ".join(parts)


def _p99(row: Row) -> str:
    """Of the response time, which counts from when an operation was due."""
    return f"response p99 {units.duration(row.summary.response_ns['p99'])}"


def _share(row: Row) -> str:
    return next(doubt.text for doubt in row.doubts if doubt.code == BEHIND)
