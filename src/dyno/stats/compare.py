"""Ratios between rows of a run, block by block, so that a drift of the machine affects both parts of each ratio.

A ratio needs two rows of one phase and one tier, with the same parameters and the same measuring tool. There are no
ratios of null engines, nor of a row of a cold phase that was not proven cold: figures from memory can't be compared
with figures from a device. Rows whose limit was the load generator have no ratios either: their figures describe the
clients, not the server.

Reads of stored files are also compared across tiers, in separate tables, because a read does not flush.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from statistics import median

from dyno.contracts.cell import Cell
from dyno.contracts.model import TIERS, Tier, UsageError
from dyno.contracts.settings import unknown_name_message
from dyno.results import Run
from dyno.stats import capacity
from dyno.stats.cache import cache_by_run
from dyno.stats.estimate import center
from dyno.stats.metric import THROUGHPUT, CapacitySpeeds, Metric, choose_metric, speeds
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.verdict import FEWEST_BLOCKS, MARGIN, Verdict, judge


@dataclass(frozen=True)
class Comparison:
    """A row compared with another row, its baseline."""

    engine: Cell
    baseline: Cell
    phase: str
    metric: Metric
    verdict: Verdict
    reported_by: str | None = None


@dataclass(frozen=True)
class Table:
    """Rows that may be compared, with their speeds by block. The best row comes first."""

    phase: str
    metric: Metric
    rows: tuple[tuple[CellSummary, Mapping[int, float]], ...]
    warm: tuple[Cell, ...]
    """For a cold phase: cells with a number that were not proven cold. They are not among the rows."""
    temperature: str
    """The temperature that the phase requests: `hot`, `cold` or `none`."""
    limited: tuple[Cell, ...] = ()
    """Cells whose limit was the load generator. They are not among the rows."""

    @property
    def tier(self) -> Tier | None:
        return self.rows[0][0].cell.tier

    @property
    def tiers(self) -> tuple[Tier | None, ...]:
        """The tiers of the rows. Only a table of `tables_across_tiers` has several."""
        return tuple(sorted({row.cell.tier for row, _ in self.rows}, key=TIERS.index))

    @property
    def reported_by(self) -> str | None:
        """The outside tool that measured; None if Dyno measured."""
        return self.rows[0][0].reported_by

    @property
    def params(self) -> Mapping[str, object]:
        return self.rows[0][0].cell.params

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Position of each row, by the requested engine."""
        return {row.cell.asked: at for at, (row, _) in reversed(list(enumerate(self.rows)))}


@cache_by_run
def tables(run: Run, by: Metric | None = None) -> tuple[Table, ...]:
    """Returns a table for every phase, tier and combination of parameters with a valid row, in the plan's order. If
    `by` is None, the metric is the phase's own, or the response time if the plan sets a rate."""
    order = {phase: at for at, phase in enumerate(run.plan.phases)}
    combinations = {text: at for at, text in enumerate(dict.fromkeys(cell.combination for cell in run.cells))}

    def place(row: CellSummary) -> tuple[int, int, int, str]:
        cell = row.cell
        at = order[row.phase], TIERS.index(cell.tier), combinations[cell.combination]
        return *at, row.reported_by or ""

    rows = sorted((row for row in summarize(run) if row.valid and not row.cell.floor), key=place)
    groups = (list(group) for _, group in groupby(rows, key=place))
    return tuple(table for group in groups if (table := _table(group, by)).rows)


@cache_by_run
def tables_across_tiers(run: Run, by: Metric | None = None) -> tuple[Table, ...]:
    """Returns a table for every phase and combination of parameters with rows that read stored files at several
    tiers. Each engine is at its most durable tier."""
    places: dict[tuple[str, str, str | None], dict[str, CellSummary]] = {}
    for row in sorted(summarize(run), key=lambda row: TIERS.index(row.cell.tier)):
        # Only phases that read files which were complete before the phase.
        reads = not row.about.writes and row.about.temperature != "none" and row.bytes_on_disk is not None
        if row.valid and not row.cell.floor and reads:
            place = row.phase, row.cell.combination, row.reported_by
            places.setdefault(place, {})[row.cell.asked] = row
    order = {phase: at for at, phase in enumerate(run.plan.phases)}
    every = (_table(list(places[place].values()), by) for place in sorted(places, key=lambda place: order[place[0]]))
    return tuple(table for table in every if len(table.tiers) > 1)


def _table(rows: Sequence[CellSummary], by: Metric | None) -> Table:
    cold, warm = list[CellSummary](), list[CellSummary]()
    for row in rows:
        (warm if row.temperature == "lukewarm" and was_evicted(row) else cold).append(row)
    used = by or choose_metric(cold)
    # A row may lack the metric: for example, a bulk phase has no percentiles.
    valued = [(row, values) for row in cold if (values := speeds(row, used))]
    valued.sort(key=lambda pair: -median(pair[1].values()))
    reached = {row.temperature for row in rows}
    requested = "none"
    if reached & {"hot", "lukewarm"}:
        requested = "hot"
    if "cold" in reached or any(map(was_evicted, rows)):
        requested = "cold"
    limited = tuple(row.cell for row in cold if row.limit is not None and not used.needs)
    return Table(rows[0].phase, used, tuple(valued), tuple(row.cell for row in warm), requested, limited)


def was_evicted(row: CellSummary) -> bool:
    """Returns whether the phase is a cold one: only cold phases measure residency."""
    return any(sample.residency is not None for sample in row.samples)


def pairs(run: Run, by: Metric | None = None, margin: float = MARGIN) -> list[Comparison]:
    """Returns every ordered pair of rows that may be compared."""
    return [
        compare_rows(table, place, base, margin)
        for table in tables(run, by)
        for base in range(len(table.rows))
        for place in range(len(table.rows))
        if place != base
    ]


def compare_with_baseline(table: Table, baseline: str | None, margin: float = MARGIN) -> list[Comparison]:
    """Returns the comparisons of all other rows of a table with the baseline: a requested engine, or None for the
    best row. Empty if the table doesn't have the baseline."""
    if baseline is not None and baseline not in table.places:
        return []
    base = 0
    if baseline is not None:
        base = table.places[baseline]
    return [compare_rows(table, place, base, margin) for place in range(len(table.rows)) if place != base]


def compare_rows(table: Table, place: int, base: int, margin: float = MARGIN) -> Comparison:
    """Returns the comparison of two rows of a table, given their positions."""
    (row, values), (base_row, base_values) = table.rows[place], table.rows[base]
    verdict = of_speeds(values, base_values, margin)
    return Comparison(row.cell, base_row.cell, table.phase, table.metric, verdict, table.reported_by)


def of_speeds(speeds: Mapping[int, float], base: Mapping[int, float], margin: float = MARGIN) -> Verdict:
    """Returns the verdict on the speeds by block of a row and its baseline. Two capacities have no blocks in common:
    each has an interval of its own."""
    if isinstance(speeds, CapacitySpeeds) and isinstance(base, CapacitySpeeds):
        return capacity.compare_capacities(speeds.found, base.found, margin)
    return compare_pairs([(speeds[block], base[block]) for block in speeds if block in base], margin)


def compare_pairs(values: Sequence[tuple[float, float]], margin: float = MARGIN) -> Verdict:
    """Returns the verdict on pairs of speeds, one pair for each block: the row's and the baseline's."""
    ratios = [speed / base for speed, base in values]
    if len(ratios) < FEWEST_BLOCKS:
        return judge(None, 0.0, len(ratios), margin)
    return judge(center(ratios), median(ratios), len(ratios), margin)


def check_baseline(run: Run, baseline: str | None) -> str | None:
    """Returns the name of the baseline as requested, which tables may shorten. Raises UsageError if the run doesn't
    have the baseline."""
    baseline = next((cell.asked for cell in run.cells if cell.label == baseline), baseline)
    names = list(dict.fromkeys(cell.asked for cell in run.cells if not cell.floor))
    if baseline is not None and baseline not in names:
        raise UsageError(unknown_name_message(f"{run.path}: engine", baseline, names))
    return baseline


def ratios(run: Run, phase: str, engine: str, baseline: str) -> list[float]:
    """Returns the throughput of `engine` divided by that of `baseline`, for each block with valid samples of both.
    The run has each of them in one row."""
    rows = {row.cell.asked: row for row in summarize(run) if row.phase == phase}
    rates, base = (speeds(rows[name], THROUGHPUT) for name in (engine, baseline))
    return [rates[block] / base[block] for block in sorted(rates) if block in base]
