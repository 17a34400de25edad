"""Ratios between rows of a run, block by block, so that a drift of the machine affects both parts of each ratio.

A ratio needs two rows of one phase and one tier, with the same parameters and the same measuring tool. There are no
ratios of null engines, nor of a row of a cold phase that was not proven cold: figures from memory can't be compared
with figures from a device. Rows whose limit was the load generator have no ratios either: their figures describe the
clients, not the server. Nor have rows with too many empty or equal answers, which prove little work.

Reads of stored files are also compared across tiers, in separate tables, because a read does not flush.

The comparisons of a run are read together, and so have the confidence of a family: see `dyno.stats.family`. A
comparison with a baseline that the user names has the confidence of a single one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, groupby
from statistics import median
from typing import TypeVar

from dyno.contracts.cell import Cell
from dyno.contracts.model import DECIDED, TIERS, Tier, UsageError
from dyno.contracts.settings import unknown_name_message
from dyno.results import Run
from dyno.stats import capacity
from dyno.stats.cache import cache_by_run
from dyno.stats.estimate import Center, center
from dyno.stats.family import ALONE, LOOKS, Family, make_family
from dyno.stats.metric import THROUGHPUT, CapacitySpeeds, Metric, choose_metric, speeds
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.verdict import FEWEST_BLOCKS, MARGIN, Verdict, judge

T = TypeVar("T")
ENOUGH_TABLES = 256
"""Number of tables from whose pairs variances are estimated."""
MOST_POOLED = 24
"""Maximum number of rows of a table whose variances are estimated together. The number of pairs grows with the
square."""


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
    suspicious: tuple[Cell, ...] = ()
    """Cells whose answers prove little work. They are not among the rows."""
    family: Family = ALONE
    """What this table's comparisons have in common with all others of the run."""

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
        return {row.cell.row: at for at, (row, _) in reversed(list(enumerate(self.rows)))}


def tables(run: Run, by: Metric | None = None) -> tuple[Table, ...]:
    """Returns a table for every phase, tier and combination of parameters with a valid row, in the plan's order. If
    `by` is None, the metric is the phase's own, or the response time if the plan sets a rate."""
    return _all_tables(run, by)[0]


def tables_across_tiers(run: Run, by: Metric | None = None) -> tuple[Table, ...]:
    """Returns a table for every phase and combination of parameters with rows that read stored files at several
    tiers. Each engine is at its most durable tier."""
    return _all_tables(run, by)[1]


@cache_by_run
def _all_tables(run: Run, by: Metric | None) -> tuple[tuple[Table, ...], tuple[Table, ...]]:
    """Returns the tables of each tier and those across tiers, which are one family."""
    of_tiers, across = _group_by_tier(run, by), _group_across_tiers(run, by)
    comparisons = sum(math.comb(len(table.rows), 2) for table in (*of_tiers, *across))
    centers = [pair_centers([speeds for _, speeds in table.rows]) for table in sample_tables(of_tiers)]
    family = make_family(centers, comparisons, count_looks(run))
    return _join_family(of_tiers, family), _join_family(across, family)


def _join_family(of: Sequence[Table], family: Family) -> tuple[Table, ...]:
    return tuple(replace(table, family=family) for table in of)


def sample_tables(of: Sequence[T]) -> Sequence[T]:
    """Returns tables or groups, evenly spread, that are enough to estimate what their variances have in common."""
    return of[:: -(-len(of) // ENOUGH_TABLES) or 1]


def count_looks(run: Run) -> int:
    """Returns the number of decisions among which the run's chance of a false statement is divided."""
    return LOOKS if run.plan.until == DECIDED else 1


def pair_centers(rows: Sequence[Mapping[int, float]]) -> list[tuple[Center, int]]:
    """Returns the center of the ratio of each pair of rows with enough blocks in common, and their number. `rows`:
    speeds by block."""
    centers = list[tuple[Center, int]]()
    measured = [row for row in rows if not isinstance(row, CapacitySpeeds)]
    for one, other in combinations(measured[:MOST_POOLED], 2):
        ratios = [one[block] / other[block] for block in one if block in other]
        if len(ratios) >= FEWEST_BLOCKS:
            centers.append((center(ratios), len(ratios)))
    return centers


def _group_by_tier(run: Run, by: Metric | None) -> list[Table]:
    order = {phase: at for at, phase in enumerate(run.plan.phases)}
    ranks = {text: at for at, text in enumerate(dict.fromkeys(cell.combination for cell in run.cells))}

    def place(row: CellSummary) -> tuple[int, int, int, str]:
        cell = row.cell
        at = order[row.phase], TIERS.index(cell.tier), ranks[cell.combination]
        return *at, row.reported_by or ""

    rows = sorted((row for row in summarize(run) if row.valid and not row.cell.floor), key=place)
    groups = (list(group) for _, group in groupby(rows, key=place))
    return [table for group in groups if (table := _table(group, by)).rows]


def _group_across_tiers(run: Run, by: Metric | None) -> list[Table]:
    places: dict[tuple[str, str, str | None], dict[str, CellSummary]] = {}
    for row in sorted(summarize(run), key=lambda row: TIERS.index(row.cell.tier)):
        # Only phases that read files which were complete before the phase.
        reads = not row.about.writes and row.about.temperature != "none" and row.bytes_on_disk is not None
        if row.valid and not row.cell.floor and reads:
            place = row.phase, row.cell.combination, row.reported_by
            places.setdefault(place, {})[row.cell.row] = row
    order = {phase: at for at, phase in enumerate(run.plan.phases)}
    every = (_table(list(places[place].values()), by) for place in sorted(places, key=lambda place: order[place[0]]))
    return [table for table in every if len(table.tiers) > 1]


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
    suspicious = tuple(row.cell for row in cold if row.suspicion is not None)
    return Table(rows[0].phase, used, tuple(valued), tuple(row.cell for row in warm), requested, limited, suspicious)


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
    best row. Empty if the table doesn't have the baseline. Comparisons with the best row have the confidence of the
    run's family, because the rows' own figures chose it; those with a requested engine that of one comparison."""
    if baseline is None:
        base = 0
    elif baseline in table.places:
        base = table.places[baseline]
        table = replace(table, family=ALONE)
    else:
        return []
    return compare_with_row(table, base, margin)


def compare_with_row(table: Table, base: int, margin: float = MARGIN) -> list[Comparison]:
    """Returns the comparisons of all other rows of a table with the row at this position."""
    return [compare_rows(table, place, base, margin) for place in range(len(table.rows)) if place != base]


def compare_rows(table: Table, place: int, base: int, margin: float = MARGIN) -> Comparison:
    """Returns the comparison of two rows of a table, given their positions."""
    (row, values), (base_row, base_values) = table.rows[place], table.rows[base]
    verdict = of_speeds(values, base_values, margin, table.family)
    return Comparison(row.cell, base_row.cell, table.phase, table.metric, verdict, table.reported_by)


def of_speeds(
    speeds: Mapping[int, float], base: Mapping[int, float], margin: float = MARGIN, family: Family = ALONE
) -> Verdict:
    """Returns the verdict on the speeds by block of a row and its baseline. Two capacities have no blocks in common:
    each has an interval of its own."""
    if isinstance(speeds, CapacitySpeeds) and isinstance(base, CapacitySpeeds):
        return capacity.compare_capacities(speeds.found, base.found, margin, family.confidence)
    return compare_pairs([(speeds[block], base[block]) for block in speeds if block in base], margin, family)


def compare_pairs(values: Sequence[tuple[float, float]], margin: float = MARGIN, family: Family = ALONE) -> Verdict:
    """Returns the verdict on pairs of speeds, one pair for each block: the row's and the baseline's."""
    ratios = [speed / base for speed, base in values]
    if len(ratios) < FEWEST_BLOCKS:
        return judge(None, 0.0, len(ratios), margin)
    middle = family.common.moderate(center(ratios), len(ratios))
    return judge(middle, median(ratios), len(ratios), margin, family.confidence)


def check_baseline(run: Run, baseline: str | None) -> str | None:
    """Returns the name of the baseline as requested, which tables may shorten. Raises UsageError if the run doesn't
    have the baseline."""
    rows = {name: cell.row for cell in run.cells for name in (cell.asked, cell.row, cell.label)}
    baseline = None if baseline is None else rows.get(baseline, baseline)
    names = list(dict.fromkeys(cell.row for cell in run.cells if not cell.floor))
    if baseline is not None and baseline not in names:
        raise UsageError(unknown_name_message(f"{run.path}: engine", baseline, names))
    return baseline


def ratios(run: Run, phase: str, engine: str, baseline: str) -> list[float]:
    """Returns the throughput of `engine` divided by that of `baseline`, for each block with valid samples of both.
    The run has each of them in one row."""
    rows = {row.cell.row: row for row in summarize(run) if row.phase == phase}
    rates, base = (speeds(rows[name], THROUGHPUT) for name in (engine, baseline))
    return [rates[block] / base[block] for block in sorted(rates) if block in base]
