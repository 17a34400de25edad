"""Why one row takes longer than another: the parts of its account that make the difference.

A part is named if its difference is shown, and makes at least a tenth of the whole difference. A part is ruled out if
its difference is shown to be less than that. There is no reason for a difference that isn't shown. If other processes
took so much that the clock shows none, the time without waiting for a core is explained.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dyno.results import Run
from dyno.stats.account import (
    CORE_WAIT,
    DEVICE_WAIT,
    HARNESS,
    PARTS,
    SPLIT,
    Account,
    ByBlock,
    explain_missing_account,
    fold,
    make_account,
)
from dyno.stats.compare import Table, compare_rows, compare_with_baseline, tables
from dyno.stats.estimate import FEWEST_TRIALS, center_numbers, quotient
from dyno.stats.metric import TIME, UNDISTURBED
from dyno.stats.summary import CellSummary
from dyno.stats.two_runs import compare_runs
from dyno.stats.verdict import CONFIDENCE, MARGIN, Verdict

SHARE = 0.1
"""Share of the whole difference from which on a part is named, and below which it is ruled out."""
MOST_NAMED = 3
EXPLAINED = 0.5
"""Share of the difference that the named parts must make, or the reason is unknown."""
FACTOR = 1.5
"""Ratio from which on a count of two rows differs enough to be shown."""
RARE, RARE_BYTES = 0.01, 1.0
"""Number for an item below which a count, or a count of bytes, explains nothing."""


SHOWN = ("faster", "slower")
COMPUTING = (HARNESS, *(part for split in SPLIT.values() for part in split))
NOT_ALWAYS_KNOWN = (HARNESS, CORE_WAIT, DEVICE_WAIT)


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much more time a part takes in one row than in another, in ns, with a 99 % interval."""

    ns: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a row takes longer or shorter than its base."""

    row: CellSummary
    base: CellSummary
    verdict: Verdict
    """On the time of an item, or if other processes disturb it, on the time without waiting for a core."""
    undisturbed: bool = False
    """Whether it is the verdict on, and the account of, the time without waiting for a core."""
    whole: Difference | None = None
    """None without accounts of both."""
    accounts: tuple[Account, Account] | None = None
    """The row's and the base's."""
    parts: Mapping[str, Difference] = field(default_factory=dict)
    """All parts that any of the accounts has."""
    named: tuple[str, ...] = ()
    """The parts that make the difference, largest first."""
    ruled_out: tuple[str, ...] = ()
    explained: bool = False
    """Whether the named parts make at least half of the difference."""
    missing: str = ""
    """Why there is no account of one of the rows."""

    def differing_counts(self) -> dict[str, tuple[float, float]]:
        """Returns what is counted for an item of the row and of the base, where it differs by a factor or is zero in
        one of them."""
        if self.accounts is None:
            return {}
        row, base = self.accounts
        return _differing(row.mean_counts, base.mean_counts)

    def differing_counters(self) -> dict[str, tuple[float, float]]:
        """Returns the engine's own counters for an item of the row and of the base, where they differ. Counters of
        two engines are not comparable."""
        if self.row.cell.engine != self.base.cell.engine or not self.row.items or not self.base.items:
            return {}
        mine = {name: count / self.row.items for name, count in self.row.counters.items()}
        others = {name: count / self.base.items for name, count in self.base.counters.items()}
        return _differing(mine, others)


def _differing(mine: Mapping[str, float], others: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Returns the numbers for an item, by name, that both have and that differ so much that they are shown."""
    pairs = {name: (number, others[name]) for name, number in mine.items() if name in others}
    least = {name: RARE_BYTES if name.endswith("_bytes") else RARE for name in pairs}
    return {
        name: pair
        for name, pair in pairs.items()
        if max(pair) >= least[name] and max(pair) >= FACTOR * max(min(pair), 0.0)
    }


@dataclass(frozen=True, slots=True)
class Explained:
    """The rows of one table: their accounts, and why the others differ from the base."""

    table: Table
    accounts: tuple[Account, ...]
    without: tuple[tuple[CellSummary, str], ...]
    """Rows without an account, each with the reason."""
    explanations: tuple[Explanation, ...] = ()


def account_run(run: Run) -> list[Explained]:
    """Returns the accounts of a run's rows, without explanations."""
    accounted = []
    for table in tables(run, TIME):
        accounts = [(row, make_account(run, row)) for row, _ in table.rows]
        known = tuple(account for _, account in accounts if account is not None)
        without = tuple((row, explain_missing_account(row)) for row, account in accounts if account is None)
        accounted.append(Explained(table, known, without))
    return accounted


def explain_run(run: Run, baseline: str | None = None, margin: float = MARGIN) -> list[Explained]:
    """Returns the accounts of a run's rows, and why they differ from the baseline: a requested engine, or None for
    the fastest of each table."""
    undisturbed = {_place(table): table for table in tables(run, UNDISTURBED)}
    explained = []
    for of in account_run(run):
        rows = {row.cell.row: row for row, _ in of.table.rows}
        accounts = {account.row.cell.row: account for account in of.accounts}
        explanations = []
        for each in compare_with_baseline(of.table, baseline, margin):
            row, base = each.engine.row, each.baseline.row
            verdicts = each.verdict, _verdict(undisturbed.get(_place(of.table)), row, base, margin)
            pair = accounts.get(row), accounts.get(base)
            explanations.append(explain(rows[row], rows[base], verdicts, pair, paired=True))
        explained.append(replace(of, explanations=tuple(explanations)))
    return explained


def _place(of: Table) -> Hashable:
    return of.phase, of.tier, of.reported_by, of.rows[0][0].cell.combination


def _verdict(table: Table | None, row: str, base: str, margin: float) -> Verdict | None:
    """Returns the verdict on two rows of a table; None if it lacks one of them."""
    if table is None or row not in table.places or base not in table.places:
        return None
    return compare_rows(table, table.places[row], table.places[base], margin).verdict


def explain_runs(before: Run, after: Run, margin: float = MARGIN) -> list[Explanation]:
    """Returns why the rows of a run differ from those of its base."""
    by_time = compare_runs(before, after, TIME, margin)
    undisturbed = {id(each.after): each.verdict for each in compare_runs(before, after, UNDISTURBED, margin).changes}
    explanations = []
    for change in by_time.changes:
        accounts = make_account(after, change.after), make_account(before, change.before)
        verdicts = change.verdict, undisturbed.get(id(change.after))
        explanations.append(explain(change.after, change.before, verdicts, accounts, by_time.paired))
    return explanations


def explain(
    row: CellSummary,
    base: CellSummary,
    verdicts: tuple[Verdict, Verdict | None],
    accounts: tuple[Account | None, Account | None],
    paired: bool,
) -> Explanation:
    """Returns why the row differs from the base. `verdicts`: on their times of an item, and on those without waiting
    for a core. `paired`: whether blocks of the same number were measured next to each other."""
    verdict, quiet = verdicts
    one, other = accounts
    if one is None or other is None:
        missing = [f"{each.cell.label}: {why}" for each in (row, base) if (why := explain_missing_account(each))]
        return Explanation(row, base, verdict, missing="; ".join(missing))
    whole = _subtract(one.total, other.total, paired)
    parts = _subtract_parts(one, other, paired)
    undisturbed = False
    if (
        quiet is not None
        and quiet.kind in SHOWN
        and (verdict.kind == "unclear" or _is_disturbance(one, other, whole, paired))
    ):
        undisturbed = True
        verdict = quiet
        one, other = (_without_core_wait(each) for each in (one, other))
        whole = _subtract(one.total, other.total, paired)
        parts = _subtract_parts(one, other, paired)
    explanation = Explanation(row, base, verdict, undisturbed, whole, (one, other), parts)
    # A row that is slower by its median, but not by its mean, is no difference to explain.
    if whole is None or verdict.kind not in SHOWN or not whole.shown or (whole.ns > 0) != (verdict.kind == "slower"):
        return explanation
    least = SHARE * abs(whole.ns)
    large = [part for part, of in parts.items() if of.shown and abs(of.ns) >= least]
    for together, split in SPLIT.items():
        cpu = _subtract_sum(one, other, split, paired)
        if cpu is not None and cpu.shown and abs(cpu.ns) >= least and not set(split) & set(large):
            parts[together] = cpu
            large.append(together)
    named = sorted(large, key=lambda part: -abs(parts[part].ns))[:MOST_NAMED]
    ruled_out = [part for part, of in parts.items() if -least < of.low and of.high < least]
    share = sum(parts[part].ns for part in named) / whole.ns
    return replace(explanation, named=tuple(named), ruled_out=tuple(ruled_out), explained=share >= EXPLAINED)


def _is_disturbance(one: Account, other: Account, whole: Difference | None, paired: bool) -> bool:
    """Returns whether waiting for a core takes much time, but is no cause: for each ns that they compute, the rows
    are not shown to wait differently. What computes longer on a busy machine waits longer."""
    longest = max(of.mean_parts_ns.get(CORE_WAIT, 0.0) for of in (one, other))
    if whole is None or longest < SHARE * abs(whole.ns):
        return False
    shares = list[ByBlock]()
    for account in (one, other):
        waits = account.parts.get(CORE_WAIT)
        if waits is None:
            return False
        computing = [part for part in account.parts if part in COMPUTING]
        computed = {block: sum(account.parts[part][block] for part in computing) for block in waits}
        shares.append({block: waited / (computed[block] or 1.0) for block, waited in waits.items()})
    difference = _subtract(shares[0], shares[1], paired)
    return difference is None or not difference.shown


def _without_core_wait(of: Account) -> Account:
    waits = of.parts.get(CORE_WAIT, {})
    total = {block: value - waits.get(block, 0.0) for block, value in of.total.items()}
    return replace(of, total=total, parts={part: each for part, each in of.parts.items() if part != CORE_WAIT})


def _subtract_parts(one: Account, other: Account, paired: bool) -> dict[str, Difference]:
    unshared = [part for part in NOT_ALWAYS_KNOWN if (part in one.parts) != (part in other.parts)]
    parts, base_parts = (fold(each.parts, [part for part in unshared if part in each.parts]) for each in (one, other))
    differences = dict[str, Difference]()
    for part in PARTS:
        if part not in parts and part not in base_parts:
            continue
        # A row without a server has no time in it.
        values = parts.get(part) or dict.fromkeys(one.total, 0.0)
        base_values = base_parts.get(part) or dict.fromkeys(other.total, 0.0)
        difference = _subtract(values, base_values, paired)
        if difference is not None:
            differences[part] = difference
    return differences


def _subtract_sum(one: Account, other: Account, split: Sequence[str], paired: bool) -> Difference | None:
    """Returns the difference of the sum of parts; None if an account lacks one of them."""
    if not all(part in of.parts for of in (one, other) for part in split):
        return None
    values, base_values = (
        {block: sum(of.parts[part][block] for part in split) for block in of.total} for of in (one, other)
    )
    return _subtract(values, base_values, paired)


def _subtract(values: ByBlock, base: ByBlock, paired: bool) -> Difference | None:
    """Returns the difference of two figures by block; None if there are too few blocks."""
    if paired:
        differences = [values[block] - base[block] for block in values if block in base]
        if len(differences) < FEWEST_TRIALS:
            return None
        middle = center_numbers(differences)
    else:
        if min(len(values), len(base)) < FEWEST_TRIALS:
            return None
        middle = quotient(center_numbers([*values.values()]), center_numbers([*base.values()]))
    half = middle.half(CONFIDENCE)
    return Difference(middle.log, middle.log - half, middle.log + half)
