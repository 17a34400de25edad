"""Determines which engine is the fastest at a tier, over all phases of one temperature together.

The speeds of one block are averaged over phases by the geometric mean, with equal weights. Hot phases, cold phases
and phases without a temperature are never averaged together. Reads of stored files also get an answer across tiers.
An engine that lacks a phase is left out and named, because a mean over fewer phases can't be compared. A cold phase
that was not proven cold for one engine is set aside for all engines, unless no other phase is left. So is a phase in
which the load generator was the limit of an engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean

from dyno.contracts.cell import Cell
from dyno.contracts.model import TIERS, Tier
from dyno.contracts.native_load import CLIENT
from dyno.results import Run
from dyno.stats.cache import cache_by_run
from dyno.stats.compare import (
    Comparison,
    Table,
    compare_with_row,
    count_looks,
    of_speeds,
    pair_centers,
    sample_tables,
    tables,
    tables_across_tiers,
)
from dyno.stats.family import NOTHING_KNOWN, Family, make_family
from dyno.stats.metric import CPU, THROUGHPUT, TIME, Metric
from dyno.stats.summary import group_values, summarize
from dyno.stats.verdict import MARGIN, Verdict

ACROSS = "across"
"""Key that stands for several tiers."""


@dataclass(frozen=True)
class LessCpu:
    """Differences in CPU time between engines that the clock can't tell apart: other processes disturb it less."""

    best: Cell
    others: tuple[tuple[Cell, Verdict], ...]
    """Engines that need more CPU time for an item, each compared with the best."""


@dataclass(frozen=True)
class Answer:
    """The answer for one tier, one value of each parameter, one metric and one temperature."""

    tiers: tuple[Tier | None, ...]
    """Several tiers if reads are compared across tiers, else one."""
    params: Mapping[str, object]
    metric: Metric
    temperature: str
    """Temperature of the phases: `hot`, `cold` or `none`."""
    reported_by: str | None
    """The outside tool that measured; None if Dyno measured."""
    phases: tuple[str, ...]
    """Phases that the mean includes."""
    best: Cell
    others: tuple[tuple[Cell, Verdict], ...]
    """Engines with all phases, each compared with the best; the second best comes first."""
    elsewhere: tuple[Comparison, ...]
    """For each phase in which other engines are faster than the best: the fastest of them, compared with the best."""
    left_out: tuple[Cell, ...]
    """Engines that lack a phase."""
    set_aside: tuple[Table, ...]
    """Phases that the mean excludes for all engines: they were not cold for all, or the load generator was the limit
    of some."""
    warm: tuple[Cell, ...]
    """If no phase was cold for all engines: those that were not cold in one of the phases."""
    limited: tuple[Cell, ...] = ()
    """If the load generator limited an engine in every phase: those that it limited in one of the phases."""
    less_cpu: LessCpu | None = None
    """Differences in CPU time between engines whose speeds can't be told apart; None if there are none."""

    @property
    def tier(self) -> Tier | None:
        """The tier; None if nothing is stored, and for an answer across tiers."""
        if len(self.tiers) == 1:
            return self.tiers[0]
        return None

    def is_covered_by(self, other: Answer) -> bool:
        """Returns whether the other answer covers all phases and the best engine of this one."""
        same = all(
            getattr(self, name) == getattr(other, name) for name in ("params", "metric", "temperature", "reported_by")
        )
        cells = [other.best, *(cell for cell, _ in other.others)]
        return same and set(self.phases) <= set(other.phases) and self.best in cells


@dataclass(frozen=True)
class _Group:
    """Tables that one answer covers, and what it compares."""

    of: Sequence[Table]
    """All phases of one metric and temperature, at one tier and with the same parameters."""
    phases: Sequence[Table]
    """The phases that the mean includes."""
    cells: Mapping[str, Cell]
    """The engines with a figure in any phase."""
    ranked: Mapping[str, Mapping[int, float]]
    """The geometric mean over the phases by block, of the engines that have all of them."""


@cache_by_run
def answers(run: Run, margin: float = MARGIN, by: Metric | None = None) -> tuple[Answer, ...]:
    """Returns an answer for each tier, combination of parameters, metric and temperature with a valid row. They are
    in the order of the run's cells, then of the plan's phases. Answers across tiers come last, or first if no tier
    has two engines."""
    groups, across = _group(run, tables(run, by)), _group(run, tables_across_tiers(run, by))
    family = _make_family(run, [*groups, *across], tables(run, by))
    by_tier = [_answer(group, family, margin) for group in groups]
    reads = [_answer(group, family, margin) for group in across]
    if by is None:
        by_tier = [replace(answer, less_cpu=_find_less_cpu(run, answer, margin)) for answer in by_tier]
    if not reads:
        return tuple(by_tier)
    # An engine that is alone at its tier is compared across tiers instead.
    by_tier = [answer for answer in by_tier if answer.others or not any(map(answer.is_covered_by, reads))]
    compares = any(answer.others for answer in by_tier)
    return tuple([*by_tier, *reads] if compares else [*reads, *by_tier])


def _find_less_cpu(run: Run, of: Answer, margin: float) -> LessCpu | None:
    near = {of.best.row, *(cell.row for cell, verdict in of.others if verdict.kind == "unclear")}
    if len(near) < 2 or of.metric not in (THROUGHPUT, TIME):
        return None
    for other in answers(run, margin, CPU):
        if (other.tiers, other.params, other.phases) == (of.tiers, of.params, of.phases) and other.best.row in near:
            more = [(cell, v) for cell, v in other.others if cell.row in near and v.kind == "slower"]
            if more:
                return LessCpu(other.best, tuple(more))
    return None


def _make_family(run: Run, groups: Sequence[_Group], of: Sequence[Table]) -> Family:
    comparisons = sum(math.comb(len(group.ranked), 2) for group in groups)
    centers = [pair_centers(list(group.ranked.values())) for group in sample_tables(groups)]
    # A mean over phases varies no more than its phases do on average, so their variance is on the safe side.
    common = of[0].family.common if of else NOTHING_KNOWN
    return make_family(centers, comparisons, count_looks(run), common)


def _group(run: Run, of: Sequence[Table]) -> list[_Group]:
    ranked = (cell for cell in run.cells if not cell.floor)
    combinations: dict[tuple[object, str], int] = {}
    for cell in ranked:
        for place in ((cell.tier, cell.combination), (ACROSS, cell.combination)):
            combinations.setdefault(place, len(combinations))
    temperatures = list(dict.fromkeys(table.temperature for table in of))

    def combination(table: Table) -> tuple[int, str]:
        cell = table.rows[0][0].cell
        tier = cell.tier if len(table.tiers) == 1 else ACROSS
        return combinations[tier, cell.combination], table.reported_by or ""

    def kind(table: Table) -> tuple[str, int]:
        return table.metric.name, temperatures.index(table.temperature)

    groups = list[_Group]()
    for _, group in groupby(sorted(of, key=lambda table: (combination(table), *kind(table))), key=combination):
        here = list(group)
        cells = {cell.row: cell for table in here for cell in (*(row.cell for row, _ in table.rows), *table.warm)}
        groups += [_rank(list(alike), cells) for _, alike in groupby(here, key=kind)]
    return groups


def _countable(of: Sequence[Table]) -> list[Table]:
    """Returns the phases that the mean may include: those without a row that was not proven cold and, of these, those
    without a limited or suspicious row. If a condition would leave none, it is dropped."""
    cold = [table for table in of if not table.warm] or list(of)
    return [table for table in cold if not table.limited and not table.suspicious] or cold


def _rank(of: Sequence[Table], cells: Mapping[str, Cell]) -> _Group:
    cold = _countable(of)
    tables_of = {name: [table for table in cold if name in table.places] for name in cells}
    most = max(map(len, tables_of.values()))
    whole = [name for name in cells if len(tables_of[name]) == most]
    # The engines with the most phases may have different phases: take those of the first, and leave out the others.
    phases = tables_of[whole[0]]
    ranked = {
        name: geometric_mean([table.rows[table.places[name]][1] for table in phases])
        for name in whole
        if tables_of[name] == phases
    }
    ranked = {name: speeds for name, speeds in ranked.items() if speeds}
    if not ranked:
        # No engine has a block with all phases, so use only the first phase.
        phases = phases[:1]
        ranked = {row.cell.row: dict(speeds) for row, speeds in phases[0].rows}
    return _Group(of, phases, cells, ranked)


def _answer(group: _Group, family: Family, margin: float) -> Answer:
    of = group.of
    phases = group.phases
    cells = group.cells
    best, seen = _best(group.ranked, family, margin)
    others = sorted(((cells[name], seen[name]) for name in seen), key=lambda pair: -(pair[1].ratio or 0.0))
    warm = {cell.row: cell for table in phases for cell in table.warm}
    limited = {cell.row: cell for table in phases for cell in table.limited}
    faster = [_find_faster(table, best, margin) for table in [table for table in of if not table.warm] or of]
    countable = _countable(of)
    considered = group.ranked.keys() | warm.keys() | limited.keys()
    return Answer(
        tiers=tuple(sorted({tier for table in phases for tier in table.tiers}, key=TIERS.index)),
        params=of[0].params,
        metric=of[0].metric,
        temperature=of[0].temperature,
        reported_by=of[0].reported_by,
        phases=tuple(table.phase for table in phases),
        best=cells[best],
        others=tuple(others),
        elsewhere=tuple(max(phase, key=lambda c: c.verdict.ratio or 0.0) for phase in faster if phase),
        left_out=tuple(cells[name] for name in cells if name not in considered),
        set_aside=tuple(table for table in of if table not in countable),
        warm=tuple(warm.values()),
        limited=tuple(limited.values()),
    )


def _find_faster(table: Table, best: str, margin: float) -> list[Comparison]:
    """Returns the comparisons with the best engine that show another to be faster in this phase."""
    if best not in table.places:
        return []
    comparisons = compare_with_row(table, table.places[best], margin)
    return [comparison for comparison in comparisons if comparison.verdict.kind == "faster"]


def _best(ranked: Mapping[str, Mapping[int, float]], family: Family, margin: float) -> tuple[str, dict[str, Verdict]]:
    """Returns the best engine, and all others compared with it."""
    first, *rest = sorted(ranked, key=lambda name: -fmean(map(math.log, ranked[name].values())))
    best, seen = first, dict[str, Verdict]()
    for name in rest:
        seen[name] = of_speeds(ranked[name], ranked[best], margin, family)
        # The engine with the best mean need not be the fastest: it may lack the blocks in which the machine was slow.
        if seen[name].kind == "faster":
            best = name
    if best != first:
        seen = {name: of_speeds(ranked[name], ranked[best], margin, family) for name in ranked if name != best}
    return best, {name: seen[name] for name in ranked if name != best}


def geometric_mean(speeds: Sequence[Mapping[int, float]]) -> Mapping[int, float]:
    """Returns the geometric mean of speeds by block, for each block that all of them have."""
    if len(speeds) == 1:
        return speeds[0]
    blocks = set.intersection(*map(set, speeds))
    return {block: math.exp(fmean(math.log(of[block]) for of in speeds)) for block in sorted(blocks)}


@dataclass(frozen=True)
class LimitedRows:
    """The rows of one tier and one value of each parameter whose limit was the load generator."""

    tiers: tuple[Tier | None, ...]
    params: Mapping[str, object]
    engines: tuple[tuple[Cell, tuple[str, ...]], ...]
    """Each engine with its limited phases."""
    percents: tuple[float, float]
    """The least and the most of the CPU time that the load generator used, of what its processes could use."""
    native: bool
    """Whether `--load native` would load any of the engines natively in any of the phases."""
    reported_by: None = None
    """Outside tools are no load generators of Dyno's."""

    @property
    def clients(self) -> int:
        return int(str(self.params.get("clients", 1)))


@cache_by_run
def group_limited_rows(run: Run) -> tuple[LimitedRows, ...]:
    """Returns the rows whose limit was the load generator, in the order of the run's cells."""
    rows_limited = (row for row in summarize(run) if row.limit is not None and not row.cell.floor)
    groups = group_values(((row.cell.tier, row.cell.combination), row) for row in rows_limited)
    limited_rows, able = list[LimitedRows](), run.header.native or ()
    for place in dict.fromkeys((cell.tier, cell.combination) for cell in run.cells):
        if not (rows := groups.get(place)):
            continue
        phases = group_values((row.cell.row, row.phase) for row in rows)
        cells = {row.cell.row: row.cell for row in rows}
        percents = [row.limit.percent for row in rows if row.limit is not None]
        limited_rows.append(
            LimitedRows(
                tiers=(rows[0].cell.tier,),
                params=rows[0].cell.params,
                engines=tuple((cell, tuple(phases[name])) for name, cell in cells.items()),
                percents=(min(percents), max(percents)),
                native=any(row.phase in able and CLIENT not in row.cell.options for row in rows),
            )
        )
    return tuple(limited_rows)
