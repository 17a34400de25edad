"""The answer for a person who has to decide: over all phases of one temperature together, which engine is the fastest
at a tier.

Together means the geometric mean over phases, each with the same weight, of the speeds of one block. What was read
hot, what was read cold and what was neither are never put in one mean. Reads of stored files have an answer across
tiers, too. An engine that lacks a phase which others have
is left out by name: a mean over fewer phases is no match. A cold phase that was not proven to be cold for one of them
is set aside for all, unless no other is left.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from dyno.contracts.model import TIERS, Tier
from dyno.contracts.sample import Cell
from dyno.results import Run
from dyno.stats.compare import Comparison, Table, across, against, paired, tables
from dyno.stats.metric import Metric
from dyno.stats.run_cache import cached
from dyno.stats.verdict import MARGIN, Verdict

ACROSS = "across"
"""In place of a tier: several."""


@dataclass(frozen=True)
class Answer:
    """Of one tier, one value of each parameter and one temperature."""

    tiers: tuple[Tier | None, ...]
    """Several, where reads are compared across tiers."""
    params: Mapping[str, object]
    metric: Metric
    temperature: str
    """Of its phases: `hot`, `cold` or `none`."""
    reported_by: str | None
    """The outside tool that measured, where Dyno did not."""
    phases: tuple[str, ...]
    """Over which it speaks."""
    best: Cell
    others: tuple[tuple[Cell, Verdict], ...]
    """Those that have all phases, as seen from the best; the second best first."""
    elsewhere: tuple[Comparison, ...]
    """Where another is faster than the best: the fastest of such a phase, seen from the best."""
    left_out: tuple[Cell, ...]
    """Engines that lack one of the phases, or all."""
    set_aside: tuple[Table, ...]
    """Cold phases that were not cold for all."""
    warm: tuple[Cell, ...]
    """Where no phase was cold for all: those that were not cold in one of the phases over which it speaks."""

    @property
    def tier(self) -> Tier | None:
        """None across tiers, too."""
        return self.tiers[0] if len(self.tiers) == 1 else None

    def within(self, other: Answer) -> bool:
        """Whether the other one speaks over all its phases, of its best too."""
        same = (self.params, self.metric, self.temperature, self.reported_by)
        cells = [other.best, *(cell for cell, _ in other.others)]
        return (
            same == (other.params, other.metric, other.temperature, other.reported_by)
            and set(self.phases) <= set(other.phases)
            and self.best in cells
        )


def answers(run: Run, margin: float = MARGIN) -> list[Answer]:
    """One for each tier and combination of parameters, and for each metric and temperature among their phases; those
    of the run's first cells first, then of the plan's first phases. Without those that have no valid row. Answers
    across tiers follow, or come first where at no tier two engines could be compared."""
    return list(_answers(run, margin))


@cached
def _answers(run: Run, margin: float) -> tuple[Answer, ...]:
    told, reads = _told(run, tables(run), margin), _told(run, across(run), margin)
    if not reads:
        return tuple(told)
    # An engine that is alone at its tier is compared with the others across tiers.
    told = [found for found in told if found.others or not any(map(found.within, reads))]
    compares = any(found.others for found in told)
    return tuple([*told, *reads] if compares else [*reads, *told])


def _told(run: Run, found: list[Table], margin: float) -> list[Answer]:
    ranked = (cell for cell in run.cells if not cell.floor)
    combinations: dict[tuple[object, str], int] = {}
    for cell in ranked:
        for place in (_place(cell), (ACROSS, cell.combination)):
            combinations.setdefault(place, len(combinations))
    temperatures = list(dict.fromkeys(table.temperature for table in found))

    def combination(table: Table) -> tuple[int, str]:
        cell = table.rows[0][0].cell
        place = _place(cell) if len(table.tiers) == 1 else (ACROSS, cell.combination)
        return combinations[place], table.reported_by or ""

    def kind(table: Table) -> tuple[str, int]:
        return table.metric.name, temperatures.index(table.temperature)

    found.sort(key=lambda table: (combination(table), *kind(table)))
    told = list[Answer]()
    for _, group in groupby(found, key=combination):
        here = list(group)
        cells = {cell.asked: cell for table in here for cell in _cells(table)}
        told += [_answer(list(alike), cells, margin) for _, alike in groupby(here, key=kind)]
    return told


def _place(cell: Cell) -> tuple[Tier | None, str]:
    return cell.tier, cell.combination


def _cells(table: Table) -> Iterator[Cell]:
    yield from (row.cell for row, _ in table.rows)
    yield from table.warm


def _answer(found: Sequence[Table], cells: Mapping[str, Cell], margin: float) -> Answer:
    """Over phases of one metric and temperature; `cells` are all that have a figure in one of the place's phases."""
    proven = [table for table in found if not table.warm]
    cold = proven or list(found)
    have = {name: [table for table in cold if name in table.places] for name in cells}
    most = max(map(len, have.values()))
    whole = [name for name in cells if len(have[name]) == most]
    # The phases of the first of those that have most of them; engines with other phases are left out.
    phases = have[whole[0]]
    ranked = {name: _together(phases, name) for name in whole if have[name] == phases}
    ranked = {name: values for name, values in ranked.items() if values}
    if not ranked:
        # No block has all phases of any engine: nothing together, but a best of the first phase.
        phases = phases[:1]
        ranked = {row.cell.asked: dict(values) for row, values in phases[0].rows}
    best, seen = _best(ranked, margin)
    others = sorted(((cells[name], seen[name]) for name in seen), key=lambda pair: -(pair[1].ratio or 0.0))
    warm = {cell.asked: cell for table in phases for cell in table.warm}
    return Answer(
        tiers=_tiers(phases),
        params=found[0].params,
        metric=found[0].metric,
        temperature=found[0].temperature,
        reported_by=found[0].reported_by,
        phases=tuple(table.phase for table in phases),
        best=cells[best],
        others=tuple(others),
        elsewhere=tuple(_elsewhere(cold, best, margin)),
        left_out=tuple(cells[name] for name in cells if name not in ranked and name not in warm),
        set_aside=tuple(table for table in found if table.warm) if proven else (),
        warm=tuple(warm.values()),
    )


def _tiers(phases: Collection[Table]) -> tuple[Tier | None, ...]:
    return tuple(sorted({tier for table in phases for tier in table.tiers}, key=TIERS.index))


def _best(ranked: Mapping[str, Mapping[int, float]], margin: float) -> tuple[str, dict[str, Verdict]]:
    """With all others as seen from it."""
    first, *rest = sorted(ranked, key=lambda name: -fmean(map(math.log, ranked[name].values())))
    best, seen = first, dict[str, Verdict]()
    for name in rest:
        seen[name] = _seen(ranked[name], ranked[best], margin)
        # One that lacks the blocks in which the machine was slow has the better mean, and need not be the faster.
        if seen[name].kind == "faster":
            best = name
    if best != first:
        seen = {name: _seen(ranked[name], ranked[best], margin) for name in ranked if name != best}
    return best, {name: seen[name] for name in ranked if name != best}


def _seen(mine: Mapping[int, float], best: Mapping[int, float], margin: float) -> Verdict:
    return paired([(mine[block], best[block]) for block in mine if block in best], margin)


def _together(phases: Sequence[Table], name: str) -> dict[int, float]:
    """The geometric mean over the phases, of each block that has them all."""
    speeds = [table.rows[table.places[name]][1] for table in phases]
    blocks = set.intersection(*map(set, speeds))
    return {block: math.exp(fmean(math.log(found[block]) for found in speeds)) for block in sorted(blocks)}


def _elsewhere(found: Sequence[Table], best: str, margin: float) -> list[Comparison]:
    faster = [[c for c in against(table, best, margin) if c.verdict.kind == "faster"] for table in found]
    return [max(phase, key=lambda c: c.verdict.ratio or 0.0) for phase in faster if phase]
