"""Compares runs with a base: differences between their plans, machines and engines, ratios of the rows that both
have, and a gate for CI.

Runs that were measured in turns are compared block by block, like engines within a run. Other runs are compared as a
whole. If the machine drifted between them, the ratio includes the drift. Its interval includes as much drift as there
was within the runs.

If several runs are compared with one base, a row has a verdict for each of them. Their intervals are so much wider
that all verdicts on the row together are wrong as seldom as the one verdict of two runs (Bonferroni).
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import NamedTuple

from msgspec import structs

from dyno.contracts.imported_code import from_facts
from dyno.contracts.model import TIERS, UsageError
from dyno.results import Run
from dyno.stats.agreement import judged_attempts
from dyno.stats.capacity import compare_capacities
from dyno.stats.definitions import check_same_work, preparation_differences
from dyno.stats.drift import SpeedsOfTwoRuns, estimate_drift, include_drift
from dyno.stats.estimate import FEWEST_TRIALS, Center, center, compare_unpaired, make_interval, quotient, tail
from dyno.stats.matching import matched_rows
from dyno.stats.metric import CPU, THROUGHPUT, TIME, CapacitySpeeds, Metric, choose_metric, speeds
from dyno.stats.ran_code import shared_files
from dyno.stats.summary import CellSummary, group_values
from dyno.stats.verdict import CONFIDENCE, FEWEST_BLOCKS, MARGIN, Verdict, blocks_needed, judge

# Facts of the machine that change all the time.
OF_THE_MOMENT = (
    *("cpu.mhz", "memory.available_bytes", "memory.swap_used_bytes", "filesystem.free_bytes", "filesystem.fsync_ns"),
    *("clock.cost_ns", "load", "psi", "pressure", "steal_percent", "wakeups", "ceilings"),
)


@dataclass(frozen=True, slots=True)
class Difference:
    where: str
    """`definition`, `machine`, `dyno`, `plan`, `commit`, or a requested engine: its label, if both runs have that."""
    what: str
    """A path in the [run file](run-file.md)."""
    before: object
    """Earlier value; null if it is unknown or missing."""
    after: object


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a row that has a number in both runs."""

    before: CellSummary
    after: CellSummary
    metric: Metric
    center: Center | None
    """Logarithm of the ratio of speeds; None if there are too few trials for an interval."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Between:
    """The comparison of a run with its base."""

    before: Run
    after: Run
    confidence: float
    """Confidence of the intervals of the ratios."""
    paired: bool
    """Whether the runs were measured in turns."""
    differences: tuple[Difference, ...]
    changes: tuple[Change, ...]
    lost: tuple[tuple[CellSummary, str], ...]
    """Rows with a number only before, each with the reason."""
    new: tuple[CellSummary, ...]
    """Rows with a number only after."""
    limited: tuple[CellSummary, ...] = ()
    """Rows with a number in both runs of which one was limited by the load generator: the later one, if both were."""
    without: tuple[tuple[CellSummary, str], ...] = ()
    """Rows without a number, or without the metric, in both runs, each with the reason."""
    shared: tuple[str, ...] = ()
    """Files of the user's code that both runs imported although they had different environments."""


class _Compared(NamedTuple):
    """A row with speeds in both runs."""

    before: CellSummary
    after: CellSummary
    metric: Metric
    speeds: SpeedsOfTwoRuns


def with_base(base: Run, others: Sequence[Run], by: Metric | None = None, margin: float = MARGIN) -> list[Between]:
    """Compares each of the other runs with the base. Raises UsageError, see `compare_runs`."""
    return [compare_runs(base, other, by, margin, confidence_of_each(len(others))) for other in others]


def confidence_of_each(runs: int) -> float:
    """Returns the confidence of the intervals if this many runs are compared with one base."""
    return 1 - (1 - CONFIDENCE) / runs


def _check_comparable(before: Run, after: Run) -> None:
    """Raises UsageError for runs of other work, and for runs of which only one kept the cores awake."""
    suites = before.plan.suite, after.plan.suite
    if suites[0] != suites[1]:
        raise UsageError(f"can't compare {before.path} of suite {suites[0]} with {after.path} of suite {suites[1]}")
    check_same_work(before, after)
    awake = {run.plan.awake: run.path for run in (before, after)}
    if len(awake) > 1:
        raise UsageError(
            f"{awake[True]} was measured with --awake and {awake[False]} without, so every ratio would contain the"
            " cost of waking cores; measure both with --awake, or both without"
        )


def compare_runs(
    before: Run, after: Run, by: Metric | None = None, margin: float = MARGIN, confidence: float = CONFIDENCE
) -> Between:
    """Compares two runs. If `by` is None, the metric is the phase's own, or the response time if the plan sets a
    rate. Raises UsageError for runs of two suites, for definitions of a suite that differ in more than the texts that
    prepare its tables, for runs of which only one kept the cores awake, for runs of the same code in two
    environments, and for runs without a common row."""
    _check_comparable(before, after)
    old, new = matched_rows([before, after])
    if not old.keys() & new.keys():
        raise UsageError(f"{before.path} and {after.path} have no engine with the same phase, tier and parameters")
    shared = shared_files(before, after, old, new)
    valid = {key: row for key, row in old.items() if row.valid}
    paired = in_turns(before, after)
    compared, lost = list[_Compared](), []
    limited, without = [], list[tuple[CellSummary, str]]()
    for key, was in valid.items():
        row = new.get(key)
        compared_anyway = by is not None and by.needs
        if row is not None and row.valid and not compared_anyway and (row.limit or was.limit):
            limited.append(was if row.limit is None else row)
            continue
        if row is not None and row.valid and (suspicion := was.suspicion or row.suspicion):
            without.append((was, f"its answers are suspicious ({suspicion.code})"))
            continue
        used = by or choose_metric([was] if row is None else [was, row])
        speeds_before, speeds_after = speeds(was, used), speeds(row, used) if row is not None and row.valid else {}
        if row is not None and speeds_before and speeds_after:
            compared.append(_Compared(was, row, used, (speeds_before, speeds_after)))
        elif by is None or speeds_before:
            # If the earlier row lacks the metric, as a bulk phase lacks percentiles, the row is not lost.
            why = "not measured"
            if by and row is not None and row.valid:
                why = f"no {by.title}"
            lost.append((was, "not in the run" if row is None else row.why or why))
        else:
            without.append((was, f"no {by.title} before"))
    for key, was in old.items():
        row = new.get(key)
        if not was.valid and (row is None or not row.valid):
            after_why = "not in the run" if row is None else row.why
            without.append((was, f"before: {was.why}; after: {after_why}"))
    without += ((row, f"only after: {row.why}") for key, row in new.items() if not row.valid and key not in old)
    drift = 0.0
    if not paired:
        drift = estimate_drift(each.speeds for each in compared)
    changes = list[Change]()
    for each in compared:
        middle, verdict = compare_speeds(*each.speeds, paired, margin, confidence, drift)
        changes.append(Change(each.before, each.after, each.metric, middle, verdict))
    return Between(
        before,
        after,
        confidence,
        paired,
        differences=tuple(differences(before, after)),
        changes=tuple(changes),
        lost=tuple(lost),
        new=tuple(row for key, row in new.items() if row.valid and key not in valid),
        limited=tuple(limited),
        shared=shared,
        without=tuple(without),
    )


def without_weakened(found: Between) -> Between:
    """Returns the comparison with each row whose tier fell (on a user's own server) moved to the lost rows. Otherwise
    a gate would pass such a row as faster."""
    fell = [c for c in found.changes if TIERS.index(c.after.cell.tier) < TIERS.index(c.before.cell.tier)]
    why = [f"its tier fell from {c.before.cell.tier_name} to {c.after.cell.tier_name}" for c in fell]
    lost = *found.lost, *zip((c.before for c in fell), why, strict=True)
    return replace(found, changes=tuple(c for c in found.changes if c not in fell), lost=lost)


def halves(run: Run) -> tuple[Run, Run]:
    """Returns the first and the second half of a run's blocks; the second has one more if the number is odd. Only a
    drift of the machine makes them differ. Raises UsageError for fewer than six blocks."""
    blocks = sorted({attempt.block for attempt in run.attempts})
    if len(blocks) < 2 * FEWEST_TRIALS:
        raise UsageError(f"comparing halves needs at least {2 * FEWEST_TRIALS} blocks; {run.path} has {len(blocks)}")
    middle = len(blocks) // 2

    def part(of: list[int]) -> Run:
        # Users see blocks numbered from 1.
        path = Path(f"{run.path}, blocks {of[0] + 1} to {of[-1] + 1}")
        return replace(
            run, path=path, attempts=tuple(attempt for attempt in judged_attempts(run) if attempt.block in of)
        )

    return part(blocks[:middle]), part(blocks[middle:])


def in_turns(before: Run, after: Run) -> bool:
    """Returns whether each block of one run was measured next to the same block of the other."""
    return alternate(block_starts(before), block_starts(after))


def block_starts(run: Run) -> dict[int, datetime]:
    """Returns the start of each block. Empty if the start of any trial is unknown."""
    starts: dict[int, datetime] = {}
    for attempt in run.attempts:
        try:
            start = datetime.fromisoformat(attempt.started)
        except ValueError:
            return {}
        # Early versions wrote UTC times without a time zone.
        if not (start.tzinfo):
            start = start.replace(tzinfo=timezone.utc)
        starts[attempt.block] = min(start, starts.get(attempt.block, start))
    return starts


def alternate(before: Mapping[int, datetime], after: Mapping[int, datetime]) -> bool:
    """Returns whether the blocks of two runs, given their starts, alternate: each must be next to the same block of
    the other run."""
    if len(before) != len(after) or len(before) < FEWEST_TRIALS:
        return False
    order = sorted((start, which, block) for which, run in enumerate((before, after)) for block, start in run.items())
    pairs = zip(order[::2], order[1::2], strict=True)
    alike = all(one[1] != other[1] and one[2] == other[2] for one, other in pairs)
    return alike and len({start for start, _, _ in order}) == len(order)


def compare_speeds(
    old: Mapping[int, float],
    new: Mapping[int, float],
    paired: bool,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    drift: float | None = None,
) -> tuple[Center | None, Verdict]:
    """Returns the verdict on a row's speeds by block, new compared with old, and the center of their ratio, which is
    None if there are too few trials. `paired`: compares block by block. `drift`: for unpaired speeds, the drift that
    all rows of the runs show; by default that of these speeds. Neither may be empty."""
    if isinstance(old, CapacitySpeeds) and isinstance(new, CapacitySpeeds):
        if old.found.center is None or new.found.center is None:
            return None, judge(None, 0.0, 0, margin)
        return quotient(new.found.center, old.found.center), compare_capacities(
            new.found, old.found, margin, confidence
        )
    if paired:
        ratios = [new[block] / old[block] for block in sorted(new) if block in old]
        fewest, ratio = len(ratios), median(ratios or [0.0])
        middle = None
        if fewest >= FEWEST_TRIALS:
            middle = center(ratios)
    else:
        fewest, ratio = min(len(old), len(new)), median(new.values()) / median(old.values())
        middle = None
        if fewest >= FEWEST_TRIALS:
            if drift is None:
                drift = estimate_drift([(old, new)])
            middle = include_drift(compare_unpaired(list(new.values()), list(old.values())), drift)
    return middle, judge(middle, ratio, fewest, margin, confidence)


def differences(before: Run, after: Run) -> Iterator[Difference]:
    """Yields the differences: the definition's first, then those of the machine, Dyno, the plan and the commit, then
    each engine's version and settings. A commit that only one of the runs has is no difference."""
    for what, only_before, only_after in preparation_differences(before, after):
        yield Difference("definition", what, only_before, only_after)
    labels = {cell.name for cell in before.cells} & {cell.name for cell in after.cells} - {None}
    old, new = facts(before, labels), facts(after, labels)
    both = {"machine", "dyno", "plan", *({where for where, _ in old} & {where for where, _ in new})}
    order = {where: at for at, where in enumerate(dict.fromkeys(where for where, _ in (*old, *new)))}
    for key in sorted(dict.fromkeys([*old, *new]), key=lambda key: order[key[0]]):
        if key[0] in both and old.get(key) != new.get(key):
            yield Difference(*key, old.get(key), new.get(key))


def facts(run: Run, labels: Collection[str | None] = ()) -> dict[tuple[str, str], object]:
    """Returns the facts of machine, Dyno, plan, commit and engines by `where` and `what` of a Difference, without
    facts that change all the time. Engines come last, each with its version; rows with one of these labels are called
    by it, and have their engine and options too."""
    loops = [attempt.loop for attempt in run.attempts if attempt.loop is not None]
    names = {}
    if loops:
        names = {name: sorted({str(loop[name]) for loop in loops}) for name in ("name", "clock")}
    tools = sorted({s.reported_by for attempt in run.attempts for s in attempt.samples if s.reported_by is not None})
    reported = {}
    if tools:
        reported = {"reported by": " and ".join(tools)}
    loop = {name: " and ".join(values) for name, values in names.items()}
    dyno = {"version": run.header.dyno, **reported, "loop": loop}
    trees = {
        "machine": run.recorded["host"],
        "dyno": dyno,
        "plan": run.recorded["plan"],
        "commit": {} if run.commit is None else {"hash": run.commit},
        **_engines(run, labels),
    }
    return {(where, what): value for where, tree in trees.items() for what, value in _leaves(tree)}


def _leaves(tree: object, at: str = "") -> Iterator[tuple[str, object]]:
    if at in OF_THE_MOMENT:
        return
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from _leaves(value, f"{at}.{name}" if at else name)
    else:
        yield at, tree


def _engines(run: Run, labels: Collection[str | None]) -> dict[str, dict[str, object]]:
    """Returns the version and settings of each requested engine in its last trial, and the engine and options of
    these labels. If an engine has several tiers, each has an entry."""
    engines: dict[str, dict[str, object]] = {}
    tiers = group_values((cell.asked, cell.tier) for cell in run.cells)
    names = {}
    for at, cell in enumerate(run.cells):
        if cell.name is not None and cell.name in labels:
            called = cell.name
        else:
            called = cell.asked
        if len(set(tiers[cell.asked])) > 1:
            names[at] = f"{called} ({cell.tier_name})"
        else:
            names[at] = called
        if cell.name in labels and not cell.floor:
            engines[names[at]] = {"engine": cell.engine, **{f"option.{key}": of for key, of in cell.options.items()}}
    for attempt in run.attempts:
        cell = run.cells[attempt.cell]
        if attempt.version is not None and not cell.floor:
            tier = {}
            if attempt.tier is not None:
                tier = {"tier": attempt.tier.value}
            code = from_facts(attempt.facts)
            imported = {} if code is None else code.to_facts()
            known = {"version": attempt.version, **tier, **(attempt.settings or {}), **imported}
            engines[names[attempt.cell]] = {**engines.get(names[attempt.cell], {}), **known}
    return engines


# -- a gate for CI: is a run slower than its base by more than a margin? ------------------------------------

CHANCE = 0.01
"""Probability that the gate fails although no row is slower by more than the margin."""
GATE_CONFIDENCE = 1 - 2 * CHANCE
"""Confidence of the gate's intervals. Each end is wrong with the probability CHANCE."""


@dataclass(frozen=True, slots=True)
class GateResult:
    change: Change
    state: str
    """'slower' than the margin allows, 'fine' or 'unclear'."""
    verdict: Verdict
    """The same decision with the gate's interval. For the states 'slower' and 'unclear', its kind is the state. For
    'fine', its kind is 'faster' if that is shown, else 'alike', with the largest possible slowdown as its bound."""
    least: float
    """The ratio at the margin: the lowest that passes."""
    same_cpu_time: bool = False
    """Whether the clock shows a slower row whose items take the same CPU time, in runs that were not measured in
    turns: the machine may have been slower. Such a row is unclear."""


def gate(of: Between, margin: float) -> list[GateResult]:
    """Returns a result for every row with a number in both runs.

    A row fails if it is shown to be slower by more than the margin. If that is unclear, the row passes, unless the
    gate is strict. A gate that fails one build in twenty without a reason is soon switched off. So all rows together
    fail by chance in at most 1 % of the builds, however many rows there are (Holm, 1979). Raises UsageError for a
    margin of the whole speed, by which nothing can be slower.
    """
    if margin >= 1:
        raise UsageError(f"margin {margin:.0%}: expected less than 100 %: nothing is slower by all of its speed")
    failed = _find_failed(of.changes, margin)
    results = []
    for at, change in enumerate(of.changes):
        ratio, blocks = change.verdict.ratio or 0.0, change.verdict.blocks
        threshold, times = _threshold(change, margin), change.metric.inverse
        verdict = decide(change.center, ratio, blocks, threshold, at in failed, len(of.changes), times)
        same_cpu_time = verdict.kind == "slower" and not of.paired and _takes_same_cpu_time(change, margin)
        if same_cpu_time:
            verdict = structs.replace(verdict, kind="unclear", bound=None)
        state = "fine"
        if verdict.kind in ("slower", "unclear"):
            state = verdict.kind
        results.append(GateResult(change, state, verdict, math.exp(threshold), same_cpu_time))
    return results


COMPUTING = 0.5
"""Share of the elapsed time from which on CPU time can explain a row's speed."""
FEW_WAITS = 0.1
"""Voluntary context switches, as a share of the involuntary ones, up to which a row computes: what it waited for is a
core."""


def _takes_same_cpu_time(change: Change, margin: float) -> bool:
    """Returns whether the row computes, and its items are not shown to take more CPU time, nor seem to take more than
    the margin allows. CPU time spreads less than the elapsed time: it would show a slower program first."""
    if change.metric not in (THROUGHPUT, TIME):
        return False
    rows = change.before, change.after
    if not all(_computes(row) for row in rows):
        return False
    old, new = (speeds(row, CPU) for row in rows)
    if not old or not new:
        return False
    _, verdict = compare_speeds(old, new, False, margin, GATE_CONFIDENCE)
    return verdict.kind != "slower" and verdict.ratio is not None and verdict.ratio >= 1 / (1 + margin)


def _computes(row: CellSummary) -> bool:
    """Returns whether the row's clients compute, rather than wait for a device or a server."""
    used = [sample.client or {} for sample in row.samples]
    waits = [each.get("voluntary_switches") for each in used]
    preemptions = sum(each.get("involuntary_switches") or 0 for each in used)
    if None not in waits and sum(filter(None, waits)) <= FEW_WAITS * preemptions:
        return True
    clients = int(str(row.cell.params.get("clients", 1)))
    shares = [
        cpu * rate / 1e9 / clients
        for sample in row.samples
        if (cpu := CPU.of(sample)) and (rate := sample.per_second)
    ]
    return bool(shares) and median(shares) >= COMPUTING


def decide(
    center: Center | None,
    ratio: float,
    blocks: int,
    threshold: float,
    failed: bool,
    rows: int = 1,
    times: bool = False,
) -> Verdict:
    """Returns the gate's verdict on one of `rows` rows. `threshold`: logarithm of the lowest relative speed that
    passes. `times`: whether bounds are shares of times, as the margin of a latency is, rather than of speeds."""
    if center is None:
        return Verdict(kind="unclear", blocks=blocks, more=FEWEST_BLOCKS - blocks)
    half = center.half(GATE_CONFIDENCE)
    low, high = center.log - half, center.log + half
    interval = make_interval(ratio, center, GATE_CONFIDENCE)
    more = None
    if failed:
        kind, bound = "slower", _loss(high, times)
    elif low >= threshold:
        if low > 0:
            kind = "faster"
            bound = math.exp(low) - 1
        else:
            kind = "alike"
            bound = _loss(low, times)
    else:
        kind, bound = "unclear", None
        clear = lambda half: center.log + half < threshold or center.log - half >= threshold  # noqa: E731
        more = blocks_needed(center, blocks, clear, 1 - 2 * CHANCE / rows)
    return Verdict(
        kind=kind, ratio=ratio, low=interval.low, high=interval.high, bound=bound, blocks=blocks, more=more
    )


def _loss(log: float, times: bool) -> float:
    """Returns the share by which the speed is lower, or with `times`, by which the time is longer."""
    if times:
        return math.expm1(-log)
    return -math.expm1(log)


def _threshold(change: Change, margin: float) -> float:
    """Returns the logarithm of the lowest speed that passes, relative to the base's."""
    # A latency that is 5 % longer is a speed of 1 / 1.05.
    if change.metric.inverse:
        return -math.log1p(margin)
    return math.log1p(-margin)


def _find_failed(changes: Sequence[Change], margin: float) -> set[int]:
    """Returns the positions of the slower rows by Holm's method: up to the first that chance can explain."""
    centers = {at: change.center for at, change in enumerate(changes) if change.center is not None}
    by_chance = {at: chance(center, _threshold(changes[at], margin)) for at, center in centers.items()}
    failed: set[int] = set()
    for at in sorted(by_chance, key=lambda at: by_chance[at]):
        if by_chance[at] > CHANCE / (len(by_chance) - len(failed)):
            break
        failed.add(at)
    return failed


def chance(center: Center, threshold: float) -> float:
    """Returns the probability of such a slow run if the run were exactly as slow as the margin allows. `threshold`:
    logarithm of the lowest relative speed that passes."""
    distance = threshold - center.log
    if not center.error:
        if distance > 0:
            return 0.0
        return 1.0
    return tail(distance / center.error, center.degrees)
