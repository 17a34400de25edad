"""The changes in a series of runs, as sections and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from dyno.report.tables import row_titles, units, wording
from dyno.report.tables.comparison import Section
from dyno.results import Run
from dyno.stats.history import CHANCE, SpeedChange
from dyno.stats.metric import THROUGHPUT
from dyno.stats.two_runs import differences

MOST = 12
"""Of what else differed at a change."""


def sections(found: Sequence[SpeedChange]) -> list[Section]:
    """One for each run at which a row changed, and after it what else did."""
    made = []
    for _, group in groupby(found, key=lambda step: str(step.at.path)):
        steps = list(group)
        rows = [(_row(step), *_figures(step), wording.verdict(step.verdict)) for step in steps]
        heads = ("row", "before", "after", "ratio", f"[{wording.LEVEL}]", "verdict")
        at = steps[0].at
        title = f"{at.path}  {str(at.header.get('created') or '')[:16].replace('T', ' ')}".strip()
        made.append(Section(title, "changed here", heads, rows, left=("row", "verdict"), keys=("row",)))
        for before in {str(step.before.path): step.before for step in steps}.values():
            made += _beside(before, at)
    return made


def lines(found: Sequence[SpeedChange], runs: int) -> list[str]:
    """What may be thought of it."""
    share = f"Of {round(1 / CHANCE)} rows without a change, one is named by chance."
    said = [] if found else [f"No row changed in {runs} runs."]
    return [*said, f"Each run's median is one value; a change has three runs on each side. {share}"]


def _row(step: SpeedChange) -> str:
    cell = step.row.cell
    by = "" if step.metric is THROUGHPUT else step.metric.title
    return row_titles.named(step.row.phase, row_titles.engine(cell.label, cell.tier), units.params(cell.params), by)


def _figures(step: SpeedChange) -> tuple[str, str, str, str]:
    before, after = step.runs
    return f"{before} runs", f"{after} runs", wording.point(step.verdict), wording.interval(step.verdict)


def _beside(before: Run, at: Run) -> list[Section]:
    told = [d for d in differences(before, at) if d.where != "plan"]
    rows = [(d.where, d.what, str(d.before), str(d.after)) for d in told[:MOST]]
    heads = ("where", "what", "before", "after")
    return [Section("What differs", f"from {before.path}", heads, rows, left=heads, keys=heads[:2])] if rows else []
