"""Columns without a figure of this run: each has a line below its table that says why."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from dyno.report.tables import units
from dyno.report.tables.sections import REMARKS, Section
from dyno.results import Run
from dyno.stats.estimate import FEWEST_TRIALS
from dyno.stats.summary import absences, summarize

BETWEEN = "│"
"""Separates published figures, on the left, from this run's."""
EMPTY = {"", units.UNKNOWN}
NOT_IN_RUN = "is not in this run"


def state_gaps(section: Section, why: Callable[[str], str], ours: Collection[str] = ()) -> Section:
    """Adds a line to the section for each column that has no figure of this run. `why`: returns the reason, by the
    column's head. `ours`: the heads of this run's columns, if the table has no mark between the two halves."""
    columns = {head: why(head) for head in _silent(section, ours)}
    heads = {text: [head for head, each in columns.items() if each == text] for text in columns.values()}
    lines = [f"{', '.join(of)}: no figure: {text}" for text, of in heads.items()]
    return replace(section, legend=[*section.legend, *lines])


def _silent(section: Section, ours: Collection[str]) -> Iterator[str]:
    """Yields the heads of this run's columns that have no figure."""
    mark = next((at for at, head in enumerate(section.heads) if head.startswith(BETWEEN)), None)
    for at, head in enumerate(section.heads):
        texts = [row[at] for row in section.rows]
        if mark is None and not ours:
            texts = [text.partition(BETWEEN)[2].strip() for text in texts if BETWEEN in text]
        elif head in (BETWEEN, REMARKS) or (head not in ours if mark is None else at < mark):
            continue
        if section.rows and texts and EMPTY.issuperset(texts):
            yield head


def reasons(
    run: Run, phases: Collection[str], engine: str | None = None, otherwise: str = "no trial recorded it"
) -> Callable[[str], str]:
    """Returns a function that returns why this run has no figure in the column of a head. `phases` and `engine`: the
    rows that the table shows. `otherwise`: the reason if these rows have other figures."""
    rows = [row for row in summarize(run) if row.phase in phases and not row.cell.floor]
    rows = [row for row in rows if engine in (None, row.cell.asked)]

    def find_reason(head: str) -> str:
        if engine is not None and engine not in {cell.asked for cell in run.cells}:
            missing = run.header.missing or {}
            return f"{engine} {missing.get(engine, NOT_IN_RUN)}"
        if not set(phases) & set(run.plan.phases):
            return f"{' and '.join(dict.fromkeys(phases))} {NOT_IN_RUN}"
        if any(row.valid for row in rows):
            if head.startswith("["):
                return f"an interval takes {FEWEST_TRIALS} trials of a row"
            return otherwise
        whys = [row.why for row in rows if row.why]
        whys += [each.why for each in absences(run) if each.phase in phases and engine in (None, each.cell.asked)]
        return "; ".join(dict.fromkeys(whys)) or otherwise

    return find_reason
