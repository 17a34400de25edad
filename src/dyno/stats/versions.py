"""Finds the versions of an engine at which its speed, or its answers, changed.

The versions of an engine are rows of one run, so they are compared block by block: all pairs, and neighbouring groups
by the geometric means of their speeds in each block. If the interval of a ratio excludes 1, the speed changed
somewhere between the first and the last of the compared versions. The narrowest such stretch of versions is a change,
and further changes are searched for before and after it (Piotr Fryzlewicz, "Narrowest Significance Pursuit: Inference
for Multiple Change-Points in Linear Models", 2024). So two changes have no step between versions in common.

All intervals of a run's versions hold together: see `dyno.stats.family`. So of 100 runs, at most one states a change
that isn't there, whether or not there are others. The intervals of the pairs bound the largest change that can't be
ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from statistics import median

from packaging.version import Version

from dyno.contracts.cell import Cell
from dyno.contracts.model import VERSION, UsageError, Value
from dyno.contracts.settings import unknown_name_message
from dyno.contracts.versions import release_order
from dyno.results import Run
from dyno.stats.agreement import BOOK, DIFFERS, agree
from dyno.stats.cache import cache_by_run
from dyno.stats.compare import Table, count_looks, of_speeds, pair_centers, sample_tables, tables
from dyno.stats.estimate import Center, center
from dyno.stats.family import Family, make_family
from dyno.stats.metric import Metric
from dyno.stats.summary import CellSummary, group_values, summarize
from dyno.stats.verdict import FEWEST_BLOCKS, MARGIN, Verdict, judge

SHOWN = ("faster", "slower")
NARROWEST = 1e-12
"""Width of the interval of equal ratios."""
Speeds = Mapping[int, float]
"""Speeds by block."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of speed in a series of rows, given by their positions."""

    first: int
    """The speed changed after this row ..."""
    last: int
    """... and at or before this row."""
    at: int
    """The row at which it most probably changed."""
    verdict: Verdict
    """Verdict on later rows from `first` to `last`, compared with earlier ones."""


@dataclass(frozen=True)
class VersionSeries:
    """The versions of an engine in release order, with the same options, phase, tier and parameters."""

    name: str
    """The engine with its other options."""
    versions: tuple[str, ...]
    table: Table
    """The table with the rows, which has their phase, tier, parameters and metric."""
    rows: tuple[CellSummary, ...]
    base: int
    """Position of the version that the others are compared with."""
    verdicts: tuple[Verdict | None, ...]
    """The verdict on each version compared with the base; None for the base."""
    steps: tuple[Step, ...]
    most: Verdict
    """The verdict on the pair of versions that may differ most."""


@dataclass(frozen=True)
class ChangedAnswer:
    """A version that answers otherwise than the version before."""

    name: str
    phase: str
    params: Mapping[str, Value]
    before: str
    version: str
    difference: str
    """The first difference in words; empty if unknown."""


@dataclass(frozen=True)
class ByVersion:
    series: tuple[VersionSeries, ...]
    changed_answers: tuple[ChangedAnswer, ...]
    without: tuple[CellSummary, ...]
    """Rows of a version that have no number."""
    unnamed: tuple[Cell, ...]
    """Rows without a version, of engines that have versions in the run."""


def name_series(cell: Cell) -> str:
    """Returns the engine with its options other than the version."""
    others = {name: value for name, value in cell.options.items() if name != VERSION}
    return Cell(cell.suite, cell.engine, others, None, {}).label


def compare_versions(
    run: Run, by: Metric | None = None, baseline: str | None = None, margin: float = MARGIN
) -> ByVersion:
    """Returns the series of every engine with two versions or more, and what else their versions tell. `baseline`: a
    version, or a row; None for the oldest of each series. Raises UsageError if no engine has two versions, or none
    has the baseline."""
    versions = group_values((name_series(cell), str(cell.options[VERSION])) for cell in _list_cells(run))
    if not any(len(set(of)) > 1 for of in versions.values()):
        raise UsageError(f"{run.path}: no engine has two versions; name them as -e ENGINE@VERSION,ENGINE@VERSION")
    names = {name for cell in _list_cells(run) for name in _list_names(cell)}
    if baseline is not None and baseline not in names:
        known = dict.fromkeys(str(cell.options[VERSION]) for cell in _list_cells(run))
        raise UsageError(unknown_name_message(f"{run.path}: version", baseline, known))
    engines = {cell.engine for cell in _list_cells(run)}
    unnamed = {cell.row: cell for cell in run.cells if cell.engine in engines and VERSION not in cell.options}
    without = tuple(row for row in summarize(run) if VERSION in row.cell.options and not row.valid)
    return ByVersion(
        list_series(run, by, baseline, margin),
        tuple(find_changed_answers(run)),
        without,
        tuple(cell for cell in unnamed.values() if not cell.floor),
    )


def _list_cells(run: Run) -> list[Cell]:
    """Returns the cells of a named version, in release order."""
    cells = [cell for cell in run.cells if VERSION in cell.options and not cell.floor]
    return sorted(cells, key=_order_cell)


def _order_cell(cell: Cell) -> tuple[bool, Version, str]:
    return release_order(str(cell.options[VERSION]))


def _list_names(cell: Cell) -> tuple[str, ...]:
    """Returns the names by which a user may refer to a version as the baseline."""
    return str(cell.options[VERSION]), cell.row, cell.asked, cell.label


@cache_by_run
def list_series(
    run: Run, by: Metric | None = None, baseline: str | None = None, margin: float = MARGIN
) -> tuple[VersionSeries, ...]:
    """Returns the series of every engine with two versions or more, as far as they have figures."""
    names = dict.fromkeys(name_series(cell) for cell in run.cells if VERSION in cell.options)
    groups = list[tuple[Table, list[tuple[CellSummary, Speeds]]]]()
    for table in tables(run, by) if names else ():
        rows = [row for row in table.rows if VERSION in row[0].cell.options]
        by_name = group_values((name_series(row[0].cell), row) for row in rows)
        several = [by_name[name] for name in names if len(by_name.get(name, ())) > 1]
        groups += [(table, sorted(of, key=lambda row: _order_cell(row[0].cell))) for of in several]
    family = make_versions_family([[speeds for _, speeds in rows] for _, rows in groups], count_looks(run))
    series = []
    for table, rows in groups:
        steps = SpeedSteps([speeds for _, speeds in rows], family, margin)
        base = next((at for at, (row, _) in enumerate(rows) if baseline in _list_names(row.cell)), 0)
        series.append(
            VersionSeries(
                name_series(rows[0][0].cell),
                _title_versions([row.cell for row, _ in rows]),
                table,
                tuple(row for row, _ in rows),
                base,
                tuple(None if at == base else steps.compare(at, base) for at in range(len(rows))),
                tuple(steps.find()),
                steps.largest(),
            )
        )
    return tuple(series)


def _title_versions(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Returns the versions. Two rows of one version have their labels, too."""
    versions = [str(cell.options[VERSION]) for cell in cells]
    return tuple(
        f"{version} ({cell.label})" if versions.count(version) > 1 else version
        for version, cell in zip(versions, cells, strict=True)
    )


# -- speeds -------------------------------------------------------------------------------------------------


def make_versions_family(series: Sequence[Sequence[Speeds]], looks: int = 1) -> Family:
    """Returns the family of all comparisons within series of speeds: of neighbouring groups, and of pairs."""
    # Two neighbours are a pair, and two groups as well.
    comparisons = sum(
        math.comb(len(rows) + 1, 3) + math.comb(len(rows), 2) - (len(rows) - 1) for rows in series if rows
    )
    return make_family([pair_centers(rows) for rows in sample_tables(series)], comparisons, looks)


class SpeedSteps:
    """Finds the steps in a series of rows, given by their speeds."""

    def __init__(self, rows: Sequence[Speeds], family: Family, margin: float = MARGIN) -> None:
        self._rows = rows
        self._family = family
        self._margin = margin
        self._verdicts: dict[tuple[range, range], Verdict] = {}

    def compare(self, row: int, base: int) -> Verdict:
        """Returns the verdict on two rows."""
        return self._judge(range(row, row + 1), range(base, base + 1))

    def largest(self) -> Verdict:
        """Returns the verdict on the pair of rows whose interval reaches farthest from 1."""
        verdicts = [self.compare(row, base) for base, row in combinations(range(len(self._rows)), 2)]
        return max(verdicts, key=reach_of)

    def find(self) -> list[Step]:
        """Returns the steps in the order of the rows."""
        stretches = list(self._search(0, len(self._rows) - 1))
        steps = []
        for at, (first, last, verdict) in enumerate(stretches):
            # The rows up to the neighbouring changes also tell where in its stretch a change is.
            start = stretches[at - 1][1] if at else 0
            end = stretches[at + 1][0] if at + 1 < len(stretches) else len(self._rows) - 1
            clearness = {cut: _clearness(self._split(start, cut, end)) for cut in range(first + 1, last + 1)}
            steps.append(Step(first, last, max(clearness, key=clearness.__getitem__), verdict))
        return steps

    def _search(self, first: int, last: int) -> Iterator[tuple[int, int, Verdict]]:
        """Yields the first and last row of the narrowest stretches that have a change, with the verdict that shows
        it."""
        for width in range(1, last - first + 1):
            shown = [
                (start, start + width, verdict)
                for start in range(first, last - width + 1)
                for verdict in self._judge_stretch(start, start + width)
                if verdict.kind in SHOWN
            ]
            if shown:
                clearest = max(shown, key=lambda stretch: _clearness(stretch[2]))
                yield from self._search(first, clearest[0])
                yield clearest
                yield from self._search(clearest[1], last)
                return

    def _judge_stretch(self, first: int, last: int) -> Iterator[Verdict]:
        """Yields the verdicts that can show a change between two rows."""
        yield self.compare(last, first)
        for cut in range(first + 1, last + 1):
            yield self._split(first, cut, last)

    def _split(self, first: int, cut: int, last: int) -> Verdict:
        """Returns the verdict on the rows from `cut` to `last`, compared with those from `first` on."""
        return self._judge(range(cut, last + 1), range(first, cut))

    def _judge(self, group: range, base: range) -> Verdict:
        if (group, base) not in self._verdicts:
            rows, base_rows = ([self._rows[at] for at in places] for places in (group, base))
            self._verdicts[group, base] = self._compare_groups(rows, base_rows)
        return self._verdicts[group, base]

    def _compare_groups(self, rows: Sequence[Speeds], base: Sequence[Speeds]) -> Verdict:
        if len(rows) == len(base) == 1:
            return of_speeds(rows[0], base[0], self._margin, self._family)
        blocks = set.intersection(*(set(speeds) for speeds in (*rows, *base)))
        ratios = [_mean(rows, block) / _mean(base, block) for block in sorted(blocks)]
        if len(ratios) < FEWEST_BLOCKS:
            return judge(None, 0.0, len(ratios), self._margin)
        # The common variance is that of a ratio of two rows; that of two means is smaller.
        scale = math.sqrt((1 / len(rows) + 1 / len(base)) / 2)
        own = center(ratios)
        of_pair = self._family.common.moderate(replace(own, error=own.error / scale), len(ratios))
        middle = Center(own.log, of_pair.error * scale, of_pair.degrees)
        return judge(middle, median(ratios), len(ratios), self._margin, self._family.confidence)


def _clearness(verdict: Verdict) -> float:
    """Returns by how many times its interval's width a ratio differs from 1."""
    if verdict.low is None or verdict.high is None:
        return 0.0
    low = math.log(verdict.low)
    high = math.log(verdict.high)
    return abs(low + high) / max(high - low, NARROWEST)


def _mean(rows: Sequence[Speeds], block: int) -> float:
    return math.exp(math.fsum(math.log(speeds[block]) for speeds in rows) / len(rows))


def reach_of(verdict: Verdict) -> float:
    """Returns the largest difference that isn't ruled out, as a share; infinite without an interval."""
    if verdict.low is None or verdict.high is None:
        return math.inf
    return max(verdict.high, 1 / verdict.low) - 1


# -- answers ------------------------------------------------------------------------------------------------


def find_changed_answers(run: Run) -> Iterator[ChangedAnswer]:
    """Yields each version that answers otherwise than the version before it, by the rules of its suite. Versions
    whose own samples disagree are passed over."""
    by_row = group_values(
        ((id(run.cells[attempt.cell]), sample.phase), sample)
        for attempt in run.attempts
        for sample in attempt.samples
        if BOOK in sample.facts and not sample.void
    )
    steady = {row: of[0].facts for row, of in by_row.items() if all(agree(of[0].facts, each.facts) for each in of)}
    cells = group_values(((name_series(cell), cell.tier, cell.combination), cell) for cell in _list_cells(run))
    for phase in run.plan.phases:
        for (name, *_), of_series in cells.items():
            answered = [(cell, steady[id(cell), phase]) for cell in of_series if (id(cell), phase) in steady]
            for (before, old), (cell, new) in pairwise(answered):
                if not agree(old, new):
                    difference = str(new.get(DIFFERS) or old.get(DIFFERS) or "")
                    previous, version = _title_versions([before, cell])
                    yield ChangedAnswer(str(name), phase, cell.params, previous, version, difference)
