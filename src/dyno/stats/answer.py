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
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from dyno.contracts.cell import Cell
from dyno.contracts.model import TIERS, Tier
from dyno.contracts.native_load import CLIENT
from dyno.results import Run
from dyno.stats.cache import cache_by_run
from dyno.stats.compare import Comparison, Table, compare_with_baseline, of_speeds, tables, tables_across_tiers
from dyno.stats.metric import Metric
from dyno.stats.summary import group_values, summarize
from dyno.stats.verdict import MARGIN, Verdict

ACROSS = "across"
"""Key that stands for several tiers."""


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


@cache_by_run
def answers(run: Run, margin: float = MARGIN) -> tuple[Answer, ...]:
    """Returns an answer for each tier, combination of parameters, metric and temperature with a valid row. They are
    in the order of the run's cells, then of the plan's phases. Answers across tiers come last, or first if no tier
    has two engines."""
    by_tier, reads = _by_place(run, tables(run), margin), _by_place(run, tables_across_tiers(run), margin)
    if not reads:
        return tuple(by_tier)
    # An engine that is alone at its tier is compared across tiers instead.
    by_tier = [answer for answer in by_tier if answer.others or not any(map(answer.is_covered_by, reads))]
    compares = any(answer.others for answer in by_tier)
    return tuple([*by_tier, *reads] if compares else [*reads, *by_tier])


def _by_place(run: Run, of: Sequence[Table], margin: float) -> list[Answer]:
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

    answers = list[Answer]()
    for _, group in groupby(sorted(of, key=lambda table: (combination(table), *kind(table))), key=combination):
        here = list(group)
        cells = {cell.asked: cell for table in here for cell in (*(row.cell for row, _ in table.rows), *table.warm)}
        answers += [_answer(list(alike), cells, margin) for _, alike in groupby(here, key=kind)]
    return answers


def _answer(of: Sequence[Table], cells: Mapping[str, Cell], margin: float) -> Answer:
    """Returns the answer over phases of one metric and temperature. `cells` has the engines with a figure in any
    phase of that tier and combination."""
    proven = [table for table in of if not table.warm]
    cold = proven or list(of)
    cold = [table for table in cold if not table.limited] or cold
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
        ranked = {row.cell.asked: dict(speeds) for row, speeds in phases[0].rows}
    best, seen = _best(ranked, margin)
    others = sorted(((cells[name], seen[name]) for name in seen), key=lambda pair: -(pair[1].ratio or 0.0))
    warm = {cell.asked: cell for table in phases for cell in table.warm}
    limited = {cell.asked: cell for table in phases for cell in table.limited}
    faster = [
        [c for c in compare_with_baseline(table, best, margin) if c.verdict.kind == "faster"]
        for table in proven or of
    ]
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
        left_out=tuple(cells[name] for name in cells if name not in (ranked.keys() | warm.keys() | limited.keys())),
        set_aside=tuple(table for table in of if table not in cold),
        warm=tuple(warm.values()),
        limited=tuple(limited.values()),
    )


def _best(ranked: Mapping[str, Mapping[int, float]], margin: float) -> tuple[str, dict[str, Verdict]]:
    """Returns the best engine, and all others compared with it."""
    first, *rest = sorted(ranked, key=lambda name: -fmean(map(math.log, ranked[name].values())))
    best, seen = first, dict[str, Verdict]()
    for name in rest:
        seen[name] = of_speeds(ranked[name], ranked[best], margin)
        # The engine with the best mean need not be the fastest: it may lack the blocks in which the machine was slow.
        if seen[name].kind == "faster":
            best = name
    if best != first:
        seen = {name: of_speeds(ranked[name], ranked[best], margin) for name in ranked if name != best}
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
        phases = group_values((row.cell.asked, row.phase) for row in rows)
        cells = {row.cell.asked: row.cell for row in rows}
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
