"""Attempts at trials that did not end well: what, where, why, and the end of what was printed."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from dyno.contracts.sample import Cell
from dyno.report.tables import row_titles, units
from dyno.report.tables.table import varying
from dyno.results import Attempt, Run

EXCERPT = 12
"""Lines of what the trial printed; the run file has more."""


def render(run: Run, console: Console) -> None:
    """Each attempt that failed, in the order in which they were made, and each phase whose answers were wrong or in
    which operations failed."""
    shown = [attempt for attempt in run.attempts if _whys(attempt)]
    if not shown:
        console.print(f"No attempt failed, of {len(run.attempts):,}.")
        return
    changing = varying(run)
    for attempt in shown:
        cell = run.cells[attempt.cell]
        console.print(Text.assemble((_where(attempt, cell, changing), "bold")), soft_wrap=True)
        for line in _whys(attempt):
            console.print(Text(f"  {line}", "red"), soft_wrap=True)
        for line in _excerpt(attempt.output):
            console.print(Text(f"  | {line}", "dim"), soft_wrap=True)
    failed = [attempt for attempt in shown if attempt.outcome != "ok" or any(each.void for each in attempt.samples)]
    console.print(f"{len(failed):,} of {len(run.attempts):,} attempts failed.")
    if others := len(shown) - len(failed):
        console.print(f"Operations failed in {others:,} more.")


def _where(attempt: Attempt, cell: Cell, changing: list[str]) -> str:
    params = units.params({name: cell.params[name] for name in changing})
    tries = f"attempt {attempt.attempt + 1}"
    return row_titles.named(row_titles.engine(cell.label, cell.tier), params, f"block {attempt.block + 1}", tries)


def _whys(attempt: Attempt) -> list[str]:
    found = [f"{sample.phase}: void: {sample.void}" for sample in attempt.samples if sample.void]
    found += [
        f"{sample.phase}: {sample.errors:,} of {sample.operations:,} operations failed, the first: "
        f"{sample.first_error or 'unknown error'}"
        for sample in attempt.samples
        if sample.errors
    ]
    if attempt.outcome != "ok":
        where = f"{attempt.phase}: " if attempt.phase else "before its first phase: "
        found.append(f"{where}{attempt.outcome}: {attempt.why or 'nobody knows why'}")
    return found


def _excerpt(output: str | None) -> list[str]:
    return [line.rstrip() for line in (output or "").splitlines() if line.strip()][-EXCERPT:]
