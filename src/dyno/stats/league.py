"""Counts on how many machines one engine is faster than another.

Each verdict is of `dyno.stats.compare`: of two rows of one run, at one tier and with the same parameters. So no ratio
has figures of two machines, and rows that aren't compared within a run take no part here either. Only verdicts are
counted.

Several runs of one machine are repetitions: the machine counts by the verdict of more than half of its runs. Without
such a majority it is undecided. If one run in favour were enough, a pair of equals would get a winner by chance on
every machine that repeats it often.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from dyno.contracts.cell import Cell
from dyno.contracts.model import Tier
from dyno.results import Run, defined_work
from dyno.results.run import URL
from dyno.stats.compare import compare_rows, tables
from dyno.stats.metric import Metric
from dyno.stats.summary import group_values
from dyno.stats.verdict import Verdict

MOST_PAIRS = 20_000
"""Maximum number of pairs of one run. Further pairs are left out."""


@dataclass(frozen=True)
class Work:
    """What two engines must have in common, so that verdicts of several runs can be counted together."""

    suite: str
    phase: str
    tier: Tier | None
    params: tuple[tuple[str, str], ...]
    metric: Metric
    limits: tuple[str, ...]
    """Limits of a search for a capacity."""
    reported_by: str
    """The outside tool that measured; empty if Dyno measured."""
    awake: bool
    definition: str
    """Hash of the user's own workload; empty for a suite of Dyno's."""


Pair = tuple[Work, str, str]
"""Two engines, in alphabetical order, and their work."""


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict of one run: the first engine of a pair, compared with the second."""

    machine: str
    year: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Standing:
    """The results of a pair, counted by machine."""

    runs: int
    machines: int
    faster: tuple[float, ...]
    """Ratios of the machines on which the first engine is faster: its speed divided by the second's."""
    slower: tuple[float, ...]
    """Ratios of the machines on which the second engine is faster: its speed divided by the first's."""
    alike: int
    undecided: int


def verdicts(run: Run) -> dict[Pair, Verdict]:
    """Returns the verdict on each pair of rows that may be compared, without users' own servers: a run file describes
    only the machine of their clients."""
    awake, limits = run.plan.awake, tuple(run.plan.limit)
    definition, verdicts = _definition(run), dict[Pair, Verdict]()
    for table in tables(run):
        params = tuple((name, str(value)) for name, value in sorted(table.params.items()))
        tool, suite = table.reported_by or "", run.plan.suite
        work = Work(suite, table.phase, table.tier, params, table.metric, limits, tool, awake, definition)
        rows = sorted((_name(row.cell), at) for at, (row, _) in enumerate(table.rows) if URL not in row.cell.options)
        for (one, place), (other, base) in combinations(rows, 2):
            if len(verdicts) == MOST_PAIRS:
                return verdicts
            verdicts[work, one, other] = compare_rows(table, place, base).verdict
    return verdicts


def _name(cell: Cell) -> str:
    """Returns the row's label. Other users may give the same label to another engine, so it isn't used alone."""
    if cell.name is None:
        return cell.label
    return f"{cell.name} ({cell.asked})"


def _definition(run: Run) -> str:
    """Returns the hash of the user's definition of the work; empty for a suite of Dyno's."""
    definition = defined_work(run.header.definition)
    if definition:
        return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()[:8]
    return ""


def count(results: Sequence[Result]) -> Standing:
    """Counts the results of one pair by machine. The ratio of a machine is the median over the runs that agree."""
    kinds, ratios = Counter[str](), dict[str, list[float]]()
    by_machine = group_values((result.machine, result.verdict) for result in results)
    for of_machine in by_machine.values():
        kind, runs = Counter(verdict.kind for verdict in of_machine).most_common(1)[0]
        kind = kind if 2 * runs > len(of_machine) else "unclear"
        kinds[kind] += 1
        agreeing = [verdict.ratio for verdict in of_machine if verdict.kind == kind and verdict.ratio is not None]
        if kind == "slower":
            agreeing = [1 / ratio for ratio in agreeing]
        if agreeing:
            ratios.setdefault(kind, []).append(median(agreeing))
    faster, slower = (tuple(ratios.get(kind, ())) for kind in ("faster", "slower"))
    return Standing(len(results), len(by_machine), faster, slower, kinds["alike"], kinds["unclear"])
