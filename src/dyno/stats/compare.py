"""Rows of a run against each other, block by block, so that a drift of the machine is in both parts of each ratio.

Only rows of one phase, one tier and the same parameters are put into a ratio, and what an outside tool reported into
none with what Dyno timed itself, or another tool. Null engines are in none, nor is a row
of a cold phase that was not proven to have been cold: what came from memory is no match for what came from a device.

Reads of stored files are compared across tiers as well, in tables of their own: no flush is in a read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from statistics import median

from dyno.contracts.model import TIERS, Tier, UsageError
from dyno.contracts.sample import Cell
from dyno.contracts.settings import unknown
from dyno.results import Run
from dyno.stats.estimate import center
from dyno.stats.metric import THROUGHPUT, Metric, fitting, speeds
from dyno.stats.run_cache import cached
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.verdict import FEWEST_BLOCKS, MARGIN, Verdict, judge


@dataclass(frozen=True)
class Comparison:
    """A row as seen from another, its baseline."""

    engine: Cell
    baseline: Cell
    phase: str
    metric: Metric
    verdict: Verdict
    reported_by: str | None = None


@dataclass(frozen=True)
class Table:
    """Rows that may be compared, with their speeds by block; the best first."""

    phase: str
    metric: Metric
    rows: tuple[tuple[CellSummary, Mapping[int, float]], ...]
    warm: tuple[Cell, ...]
    """Of a cold phase: those that have a number and are not among the rows, since they were not proven to be cold."""
    temperature: str
    """What the phase asked for: `hot`, `cold` or `none`."""
    _known: dict[tuple[int, int, float], Comparison] = field(default_factory=dict, repr=False, compare=False)

    @property
    def tier(self) -> Tier | None:
        return self.rows[0][0].cell.tier

    @property
    def tiers(self) -> tuple[Tier | None, ...]:
        """Several in a table of `across`."""
        return tuple(sorted({row.cell.tier for row, _ in self.rows}, key=TIERS.index))

    @property
    def reported_by(self) -> str | None:
        """The outside tool that measured them; None for what Dyno timed itself. The two are in no ratio."""
        return self.rows[0][0].reported_by

    @property
    def params(self) -> Mapping[str, object]:
        return self.rows[0][0].cell.params

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Of each engine, as it was asked for: which of the rows it has."""
        return {row.cell.asked: at for at, (row, _) in reversed(list(enumerate(self.rows)))}


def tables(run: Run, by: Metric | None = None) -> list[Table]:
    """Every phase, tier and combination of parameters with a valid row, in the plan's order.

    `by` None: what the suite says of the phase, or the response time where a rate was asked for.
    """
    return list(_tables(run, by))


@cached
def _tables(run: Run, by: Metric | None) -> tuple[Table, ...]:
    order = {phase: at for at, phase in enumerate(run.plan["phases"])}
    combinations = {text: at for at, text in enumerate(dict.fromkeys(cell.combination for cell in run.cells))}

    def place(row: CellSummary) -> tuple[int, int, int, str]:
        cell = row.cell
        at = order[row.phase], TIERS.index(cell.tier), combinations[cell.combination]
        return *at, row.reported_by or ""

    rows = sorted((row for row in summarize(run) if row.valid and not row.cell.floor), key=place)
    grouped = (list(found) for _, found in groupby(rows, key=place))
    return tuple(table for found in grouped if (table := _table(found, by)).rows)


def across(run: Run, by: Metric | None = None) -> list[Table]:
    """Every phase and combination of parameters whose rows read stored files and are at several tiers: a table with a
    row for each engine, at its most durable tier."""
    return list(_across(run, by))


@cached
def _across(run: Run, by: Metric | None) -> tuple[Table, ...]:
    places: dict[tuple[str, str, str | None], dict[str, CellSummary]] = {}
    for row in sorted(summarize(run), key=lambda row: TIERS.index(row.cell.tier)):
        if row.valid and not row.cell.floor and _reads_files(row):
            place = row.phase, row.cell.combination, row.reported_by
            places.setdefault(place, {})[row.cell.asked] = row
    order = {phase: at for at, phase in enumerate(run.plan["phases"])}
    found = (_table(list(places[place].values()), by) for place in sorted(places, key=lambda place: order[place[0]]))
    return tuple(table for table in found if len(table.tiers) > 1)


def _reads_files(row: CellSummary) -> bool:
    """Whether nothing but reading is measured, of files that were complete before."""
    return not row.about.writes and row.about.temperature != "none" and row.bytes_on_disk is not None


def _table(rows: Sequence[CellSummary], by: Metric | None) -> Table:
    cold, warm = list[CellSummary](), list[CellSummary]()
    for row in rows:
        (warm if row.temperature == "lukewarm" and _evicted(row) else cold).append(row)
    used = by or fitting(cold)
    # A row without a single value of the metric (a percentile of a bulk phase) has nothing to be compared by.
    valued = [(row, found) for row in cold if (found := speeds(row, used))]
    valued.sort(key=lambda pair: -median(pair[1].values()))
    return Table(rows[0].phase, used, tuple(valued), tuple(row.cell for row in warm), _asked_for(rows))


def _asked_for(rows: Sequence[CellSummary]) -> str:
    """The temperature of their phase, whether it was reached or not."""
    reached = {row.temperature for row in rows}
    if "cold" in reached or any(map(_evicted, rows)):
        return "cold"
    return "hot" if reached & {"hot", "lukewarm"} else "none"


def _evicted(row: CellSummary) -> bool:
    """Whether it is of a cold phase: a hot one that is lukewarm was not evicted."""
    return any(sample.residency is not None for sample in row.samples)


def pairs(run: Run, by: Metric | None = None, margin: float = MARGIN) -> list[Comparison]:
    """Every ordered pair of rows that may be compared."""
    return [
        compared(table, mine, base, margin)
        for table in tables(run, by)
        for base in range(len(table.rows))
        for mine in range(len(table.rows))
        if mine != base
    ]


def against(table: Table, baseline: str | None, margin: float = MARGIN) -> list[Comparison]:
    """Every other row of a table as seen from the baseline's: the engine as it was asked for, or None for the best.

    Nothing where the table does not have the baseline.
    """
    if baseline is not None and baseline not in table.places:
        return []
    base = 0 if baseline is None else table.places[baseline]
    return [compared(table, mine, base, margin) for mine in range(len(table.rows)) if mine != base]


def compared(table: Table, mine: int, base: int, margin: float = MARGIN) -> Comparison:
    """Two rows of a table. It is asked for more than once: by a table of ratios, an answer, a sweep."""
    if (found := table._known.get((mine, base, margin))) is None:
        found = table._known[mine, base, margin] = _compared(table, mine, base, margin)
    return found


def _compared(table: Table, mine: int, base: int, margin: float) -> Comparison:
    (row, values), (base_row, base_values) = table.rows[mine], table.rows[base]
    verdict = paired([(values[block], base_values[block]) for block in values if block in base_values], margin)
    return Comparison(row.cell, base_row.cell, table.phase, table.metric, verdict, table.reported_by)


def paired(values: Sequence[tuple[float, float]], margin: float = MARGIN) -> Verdict:
    """The verdict on speeds and the baseline's, a pair for each block."""
    ratios = [mine / base for mine, base in values]
    if len(ratios) < FEWEST_BLOCKS:
        return judge(None, 0.0, len(ratios), margin)
    return judge(center(ratios), median(ratios), len(ratios), margin)


def check_baseline(run: Run, baseline: str | None) -> str | None:
    """The engine as it was asked for, which may be given as tables call it. Raises UsageError for one that the run
    does not have."""
    baseline = next((cell.asked for cell in run.cells if cell.label == baseline), baseline)
    names = list(dict.fromkeys(cell.asked for cell in run.cells if not cell.floor))
    if baseline is not None and baseline not in names:
        raise UsageError(unknown(f"{run.path}: engine", baseline, names))
    return baseline


def ratios(run: Run, phase: str, engine: str, baseline: str) -> list[float]:
    """Throughput of `engine` as a share of that of `baseline` (both as they were asked for), for each block that has
    a valid sample of both. Raises UsageError for an engine that the run does not have, or has in several rows."""
    asked = Counter(cell.asked for cell in run.cells)
    for name in (engine, baseline):
        if name not in asked:
            raise UsageError(unknown(f"{run.path}: engine", name, asked))
        if asked[name] > 1:
            raise UsageError(f"{run.path}: engine {name} has {asked[name]} rows, of other tiers or parameters")
    rows = {row.cell.asked: row for row in summarize(run) if row.phase == phase}
    mine, base = (speeds(rows[name], THROUGHPUT) for name in (engine, baseline))
    return [mine[block] / base[block] for block in sorted(mine) if block in base]
