"""Comparisons of a run that are still open, for runs that go on until all are decided.

A comparison is decided if it shows a difference, or that there is none above the margin. Those that count are the
ones that a report states: each row of a table and of an answer, compared with its best. A row that is in no open
comparison needs no further trial.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dyno.results import Run
from dyno.stats.answer import answers
from dyno.stats.compare import Comparison, compare_with_baseline, tables, tables_across_tiers
from dyno.stats.summary import group_values
from dyno.stats.verdict import MARGIN, MOST_MORE

SURE_BLOCKS = 6
"""Number of blocks from which on the forecast of an open comparison ends its trials."""
NAMED = 3
"""Maximum number of open pairs that a line names."""


@dataclass(frozen=True)
class Decisions:
    """The comparisons that a run states, and those of them that are open."""

    stated: int
    open: tuple[Comparison, ...]

    @property
    def most(self) -> int:
        """The approximate number of further samples that would decide all open comparisons."""
        return max((_samples_needed(each) for each in self.open), default=0)

    @property
    def least(self) -> int:
        """The approximate number of further samples that would decide one of the open comparisons."""
        return min((_samples_needed(each) for each in self.open), default=0)

    def within_reach(self, blocks: float) -> Decisions:
        """Returns the open comparisons without those that would probably take more than this number of blocks."""
        near = (each for each in self.open if each.verdict.blocks < SURE_BLOCKS or _samples_needed(each) <= blocks)
        return Decisions(self.stated, tuple(near))

    def cells(self, run: Run) -> frozenset[int]:
        """Returns the numbers of the cells that need another trial."""
        named = {id(cell) for each in self.open for cell in (each.baseline, each.engine)}
        return frozenset(at for at, cell in enumerate(run.cells) if id(cell) in named)

    def describe(self) -> str:
        """Returns '3 of 14 comparisons open: lmdb and sqlite in scan, …'."""
        pairs = group_values(((each.baseline.label, each.engine.label), each.phase) for each in self.open)
        texts = []
        for (best, other), phases in list(pairs.items())[:NAMED]:
            named = ", ".join(dict.fromkeys(filter(None, phases)))
            where = f" in {named}" if named else ""
            texts.append(f"{best} and {other}{where}")
        more = ", …" if len(pairs) > NAMED else ""
        return f"{len(self.open)} of {self.stated} comparisons open: {'; '.join(texts)}{more}"


def find_decisions(run: Run, margin: float = MARGIN) -> Decisions:
    """Returns the comparisons that the run states, by the trials so far."""
    stated = list(_list_stated(run, margin))
    return Decisions(len(stated), tuple(each for each in stated if each.verdict.kind == "unclear"))


def find_undecided_rows(run: Run, blocks: float) -> tuple[frozenset[int], str]:
    """Returns the numbers of the cells that need another trial, and a line that says why. Both are empty if nothing
    is open that would be decided in this number of further blocks."""
    decisions = find_decisions(run).within_reach(blocks)
    if not decisions.open:
        return frozenset(), ""
    return decisions.cells(run), decisions.describe()


def _list_stated(run: Run, margin: float) -> Iterator[Comparison]:
    """Yields the comparisons of tables, and those of answers over several phases, which have no phase."""
    for table in (*tables(run), *tables_across_tiers(run)):
        yield from compare_with_baseline(table, None, margin)
    for answer in answers(run, margin):
        if len(answer.phases) > 1:
            for cell, verdict in answer.others:
                yield Comparison(cell, answer.best, "", answer.metric, verdict, answer.reported_by)


def _samples_needed(of: Comparison) -> int:
    if of.verdict.more is None:
        return MOST_MORE
    return of.verdict.more
