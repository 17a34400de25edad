"""The rows of a run for other tools, each with one name that no other row has."""

from __future__ import annotations

from collections.abc import Iterator

from dyno.report.tables.table import groups, varying
from dyno.results import Run
from dyno.stats.summary import CellSummary


def rows(run: Run) -> Iterator[tuple[str, CellSummary]]:
    """In the order of the tables; 'rand-key/sqlite', with tier and parameters where that is not enough."""
    changing = varying(run)
    found = [row.summary for group in groups(run) for row in group.rows if not row.summary.cell.floor]
    several = len({row.cell.tier_name for row in found}) > 1
    # An outside tool's rows are not what Dyno timed itself.
    tools = len({row.reported_by for row in found}) > 1
    for row in found:
        parts = [row.phase, row.cell.asked]
        parts += [f"{name}={row.cell.params[name]}" for name in changing]
        parts += [row.cell.tier_name] if several and row.cell.tier_name else []
        parts += [row.reported_by] if tools and row.reported_by else []
        yield "/".join(parts), row
