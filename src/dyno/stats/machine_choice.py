"""Compares machines by the rows that their runs have in common, for whoever chooses one.

Rows are the same work if suite, definition, phase, tier, temperature, parameters, engine and measuring tool are the
same. So no ratio has two durabilities. A row whose flushes can't have reached a device is left out, and so are rows
of users' own servers: their run files describe only the clients' machine.

Rows of one suite, tier and temperature are averaged by the geometric mean, block by block and with equal weights,
like the phases of an answer. Blocks of two machines are not paired. Each capacity has a line of its own. All verdicts
of a table together name a difference between equals in at most one table of a hundred (Bonferroni).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from statistics import median

from dyno.contracts.model import TIERS, Tier
from dyno.results import Run, defined_work
from dyno.results.names import distinct_names, folder_names
from dyno.results.run import URL
from dyno.stats.answer import geometric_mean
from dyno.stats.compare import was_evicted
from dyno.stats.doubts import doubts
from dyno.stats.estimate import Center
from dyno.stats.hardware import hardware
from dyno.stats.matching import matched_rows
from dyno.stats.metric import CAPACITY, Metric, choose_metric, speeds
from dyno.stats.summary import CellSummary, group_values
from dyno.stats.two_runs import compare_speeds
from dyno.stats.verdict import CONFIDENCE, MARGIN, MOST_MORE, Verdict, judge

UNFLUSHED = ("ram", "flush")
"""Codes of the doubts whether a row is as durable as its tier says."""


@dataclass(frozen=True)
class Machine:
    name: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Work:
    """Work that the rows of a line have in common."""

    suite: str
    tier: Tier | None
    temperature: str
    metric: Metric
    row: str
    """Phase and engine of a capacity; empty for an average."""


@dataclass(frozen=True)
class Line:
    """The speeds of the machines that have all rows of a line."""

    work: Work
    rows: tuple[CellSummary, ...]
    """The rows of all machines."""
    speeds: Mapping[str, Mapping[int, float]]
    """Mean speed by block, by machine."""
    ratios: Mapping[str, tuple[float, float]]
    """The least and the most of the rows' ratios to the first machine, by machine."""

    def verdict(self, machine: str, base: str, confidence: float, price_ratio: float = 1.0) -> Verdict:
        """Returns the verdict on a machine's speed against another's, both divided by their prices. `price_ratio`:
        the machine's price divided by the other's."""
        old, new = self.speeds[base], self.speeds[machine]
        center, verdict = compare_speeds(old, new, False, MARGIN, confidence)
        if price_ratio == 1.0 or center is None or verdict.ratio is None:
            return verdict
        per_price = Center(center.log - math.log(price_ratio), center.error, center.degrees)
        return judge(per_price, verdict.ratio / price_ratio, verdict.blocks, MARGIN, confidence)


@dataclass(frozen=True)
class LeftOut:
    """Rows of a machine and suite that no line has, for one reason."""

    machine: str
    suite: str
    rows: tuple[CellSummary, ...]
    whole: bool
    """Whether these are all rows that the machine has of the suite."""
    why: str
    """The reason; empty if no other machine has the rows."""
    lacking: tuple[str, ...] = ()
    """Without a reason: the machines that don't have them."""
    other_tier: bool = False
    """Whether a machine that lacks them has the same work at another tier."""


@dataclass(frozen=True)
class Choice:
    """The comparison of machines."""

    machines: tuple[Machine, ...]
    lines: tuple[Line, ...]
    left_out: tuple[LeftOut, ...]
    versions: tuple[str, ...]
    """Engines whose versions differ between machines."""

    @property
    def confidence(self) -> float:
        """The confidence of each interval."""
        comparisons = sum(math.comb(len(line.speeds), 2) for line in self.lines)
        return 1 - (1 - CONFIDENCE) / max(comparisons, 1)


# -- the machines -------------------------------------------------------------------------------------------


def machines(runs: Sequence[Run]) -> tuple[Machine, ...]:
    """Returns the machines that were measured. Runs are of one machine if they are in one folder, if their names
    differ only in the suite, or if their processor, cores and memory are the same. The first rule counts by which
    no machine has a row twice; if several do, that with the fewest machines. If none does, each run is a machine."""
    paths = [run.path for run in runs]
    names = distinct_names(paths)
    folders = folder_names(paths)
    by_folder = list[tuple[Hashable, str]]()
    by_name = list[tuple[Hashable, str]]()
    by_hardware = list[tuple[Hashable, str]]()
    for run in runs:
        folder = run.path.absolute().parent
        suite = re.escape(run.plan.suite)
        rest = re.sub(rf"(^|[._-]){suite}(?=[._-]|$)", "", run.path.stem).strip("._-")
        by_folder.append((folder, folders[folder]))
        by_name.append(((folder, rest), rest or folders[folder]))
        machine = hardware(run)
        by_hardware.append((machine, machine.processor or "unknown processor"))
    rows = [set(of_run) for of_run in _rows(runs)]
    best: tuple[Machine, ...] = tuple(Machine(name, (run,)) for name, run in zip(names, runs, strict=True))
    # If each run has its own folder, the folders' names say more than the files'.
    fewest = len(runs) + 1
    for of in (by_folder, by_name, by_hardware):
        groups = group_values((key, at) for at, (key, _) in enumerate(of))
        labels = {key: of[at[0]][1] for key, at in groups.items()}
        once = all(
            len({hardware(runs[each]) for each in at}) == 1
            and not any(rows[one] & rows[other] for one, other in combinations(at, 2))
            for at in groups.values()
        )
        if once and len(set(labels.values())) == len(groups) and 1 < len(groups) < fewest:
            best = tuple(Machine(labels[key], tuple(runs[each] for each in at)) for key, at in groups.items())
        fewest = len(best)
    return best


# -- the rows -----------------------------------------------------------------------------------------------

Key = tuple[object, ...]


def _rows(runs: Sequence[Run]) -> list[dict[Key, CellSummary]]:
    """Returns the rows of each run, by what makes them the same work on another machine."""
    rows = list[dict[Key, CellSummary]]()
    for run, matched in zip(runs, matched_rows(runs), strict=True):
        suite, definition = run.plan.suite, json.dumps(defined_work(run.header.definition), sort_keys=True)
        same = suite, definition, run.plan.awake, tuple(map(str, run.limits))
        rows.append({(*same, row.cell.tier, row.temperature, *key): row for key, row in matched.items()})
    return rows


def choose(of: Sequence[Machine]) -> Choice:
    """Returns the comparison of machines. It has no line if no machine has the work of another."""
    rows: dict[str, dict[Key, CellSummary]] = {machine.name: {} for machine in of}
    unusable: dict[str, dict[Key, str]] = {machine.name: {} for machine in of}
    measured = [(machine.name, run) for machine in of for run in machine.runs]
    for (name, run), of_run in zip(measured, _rows([run for _, run in measured]), strict=True):
        for key, row in of_run.items():
            rows[name][key] = row
            if why := _why_unusable(run, row):
                unusable[name][key] = why
    usable = {name: {k: row for k, row in of_one.items() if k not in unusable[name]} for name, of_one in rows.items()}
    lines = _lines(usable)
    compared = {id(row) for line in lines for row in line.rows}
    left_out = [each for machine in of for each in _left_out(machine.name, rows, unusable, compared)]
    versions = dict[str, set[str | None]]()
    for row in (row for line in lines for row in line.rows):
        versions.setdefault(row.cell.engine, set()).add(row.version)
    changed = [engine for engine, known in versions.items() if len(known) > 1]
    return Choice(tuple(of), tuple(lines), tuple(left_out), tuple(changed))


def _why_unusable(run: Run, row: CellSummary) -> str:
    """Returns why a row takes no part; empty if it does."""
    if not row.valid:
        return f"no number: {row.why}"
    if URL in row.cell.options:
        return "on a server of yours, whose machine the run file doesn't describe"
    if row.limit is not None:
        return "the load generator was the limit"
    if row.temperature == "lukewarm" and was_evicted(row):
        return "not proven to be cold"
    if unflushed := next((doubt for doubt in doubts(row, run) if doubt.code in UNFLUSHED), None):
        return f"less durable than the tier says: {unflushed.text}"
    if speeds(row, choose_metric([row])):
        return ""
    return "no speed"


def _lines(usable: Mapping[str, Mapping[Key, CellSummary]]) -> list[Line]:
    having = group_values((key, name) for name, of_machine in usable.items() for key in of_machine)
    by_work: dict[Work, list[Key]] = {}
    for key, names in having.items():
        row, by = usable[names[0]][key], choose_metric([usable[name][key] for name in names])
        if len(names) > 1 and all(speeds(usable[name][key], by) for name in names):
            params = " ".join(f"{name}={value}" for name, value in row.cell.params.items())
            alone = ""
            if by is CAPACITY:
                alone = f"{row.phase} {row.cell.label} {params}"
            work = Work(str(key[0]), row.cell.tier, row.temperature, by, alone)
            by_work.setdefault(work, []).append(key)
    lines = []
    for work, keys in by_work.items():
        # A mean over fewer rows can't be compared: take the rows that all machines of the line have.
        names = [name for name, of_machine in usable.items() if any(key in of_machine for key in keys)]
        common = [key for key in keys if len(having[key]) == len(names)]
        if common:
            lines.append(_line(work, {name: [usable[name][key] for key in common] for name in names}))
    order = list(dict.fromkeys(work.suite for work in by_work))
    return sorted(lines, key=lambda line: (order.index(line.work.suite), TIERS.index(line.work.tier)))


def _line(work: Work, rows: Mapping[str, Sequence[CellSummary]]) -> Line:
    of = {name: [speeds(row, work.metric) for row in of_machine] for name, of_machine in rows.items()}
    base = next(iter(of.values()))
    ratios = {
        name: [median(new.values()) / median(old.values()) for new, old in zip(each, base, strict=True)]
        for name, each in of.items()
    }
    return Line(
        work,
        tuple(row for of_machine in rows.values() for row in of_machine),
        {name: geometric_mean(each) for name, each in of.items()},
        {name: (min(each), max(each)) for name, each in ratios.items()},
    )


def _left_out(
    machine: str,
    rows: Mapping[str, Mapping[Key, CellSummary]],
    unusable: Mapping[str, Mapping[Key, str]],
    compared: Collection[int],
) -> Iterator[LeftOut]:
    total = Counter(str(key[0]) for key in rows[machine])
    out = [(key, row) for key, row in rows[machine].items() if id(row) not in compared]
    at_any_tier = {name: set(map(_without_tier, of_machine)) for name, of_machine in rows.items()}
    reasons: dict[tuple[str, str, tuple[str, ...], bool], list[CellSummary]] = {}
    for key, row in out:
        why, lacking = unusable[machine].get(key, ""), tuple[str, ...]()
        if not why:
            lacking = tuple(name for name in rows if key not in rows[name] or key in unusable[name])
        other_tier = any(key not in rows[name] and _without_tier(key) in at_any_tier[name] for name in lacking)
        reasons.setdefault((str(key[0]), why, lacking, other_tier), []).append(row)
    for (suite, why, lacking, other_tier), of in reasons.items():
        yield LeftOut(machine, suite, tuple(of), len(of) == total[suite], why, lacking, other_tier)


def _without_tier(key: Key) -> Key:
    return tuple(part for part in key if not isinstance(part, Tier))


# -- the decision -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """Which machine is the best in all work that all machines have done."""

    best: str | None
    """The machine that is nowhere slower than another, and somewhere faster than each; None if there is none."""
    equal: bool
    """Whether no machine differs from another."""
    ahead: Mapping[str, tuple[tuple[Work, Verdict], ...]]
    """For each machine the work in which it is faster than each other machine, with the least clear verdict."""
    alike: tuple[Work, ...]
    """Work without a difference between any two machines."""
    unclear: tuple[tuple[Work, Verdict], ...]
    """Work in which any verdict is unclear, with the least clear one."""


def decide(of: Choice, prices: Mapping[str, float] | None = None) -> Decision:
    """Decides by speed, or with each machine's price of an hour by speed for the price."""
    names = [machine.name for machine in of.machines]
    price = prices or dict.fromkeys(names, 1.0)
    whole = [line for line in of.lines if len(line.speeds) == len(names)]
    ahead: dict[str, list[tuple[Work, Verdict]]] = {name: [] for name in names}
    alike = list[Work]()
    unclear = list[tuple[Work, Verdict]]()
    kinds = dict[tuple[str, str], set[str]]()
    for line in whole:
        verdicts = {
            (one, other): line.verdict(one, other, of.confidence, price[one] / price[other])
            for one, other in permutations(names, 2)
        }
        for pair, verdict in verdicts.items():
            kinds.setdefault(pair, set()).add(verdict.kind)
        for one in names:
            seen = [verdict for (each, _), verdict in verdicts.items() if each == one]
            if all(verdict.kind == "faster" for verdict in seen):
                ahead[one].append((line.work, min(seen, key=lambda verdict: verdict.low or 0.0)))
        if all(verdict.kind == "alike" for verdict in verdicts.values()):
            alike.append(line.work)
        if doubtful := [verdict for verdict in verdicts.values() if verdict.kind == "unclear"]:
            unclear.append((line.work, max(doubtful, key=lambda verdict: verdict.more or MOST_MORE)))
    best = next(
        (one for one in names if all(_wins(kinds.get((one, other), set())) for other in names if other != one)), None
    )
    return Decision(
        best,
        bool(whole) and len(alike) == len(whole),
        {name: tuple(works) for name, works in ahead.items()},
        tuple(alike),
        tuple(unclear),
    )


def _wins(kinds: Collection[str]) -> bool:
    return "faster" in kinds and set(kinds) <= {"faster", "alike"}
