"""Checks the findings of a published experiment against a run: confirmed, contradicted, or unclear.

A claim bounds the ratio of two rows. The ratio is computed block by block with a 99 % interval, like every ratio. An
interval inside the bounds confirms the claim, and an interval outside contradicts it. Otherwise the claim is unclear.
So an interval that contains 1 never confirms that one row is faster. If a claim's bounds are on both sides of 1, an
interval on the other side of 1 than the published ratio reverses it. A run at a smaller size than a finding needs
does not check it.

Ratios between rows of different tiers, rows that were not proven cold, and figures of outside tools are not computed
here either, with two exceptions. If the publication compared two tiers, a claim may say why the tiers make no
difference. Then rows of phases that write nothing are compared, and the tiers are shown next to the verdict. (A tier
says what an acknowledged write survives; a read acknowledges nothing.) In the same way a claim may say why two
outside tools may be compared. Figures of a tool are never compared with Dyno's own. This module must not name a
suite, a phase or an engine: the names come from claims.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dyno.contracts.cell import Cell
from dyno.published.claims import FAILS, Claim, Finding
from dyno.results import Run
from dyno.stats.compare import compare_pairs
from dyno.stats.metric import metric, speeds
from dyno.stats.summary import CellSummary, absences, summarize
from dyno.stats.verdict import CONFIDENCE, FEWEST_BLOCKS

CONFIRMED = "confirmed"
CONTRADICTED = "contradicted"
REVERSED = "reversed"
UNCLEAR = "can't tell"
UNCHECKED = "not checked"
TOO_SMALL = "not checked at this size"
CRASH = "crash"
SIZE = "bytes_on_disk"
NOT_MEASURED = "no such row was measured"
LIMITED = "the load generator was the limit"


@dataclass(frozen=True)
class Check:
    """A claim checked by one ratio of two rows, or by the number of trials that failed."""

    claim: Claim
    kind: str
    """'confirmed', 'contradicted', 'reversed' or "can't tell"."""
    phase: str
    """Phase of the row; empty for `fails`."""
    cell: Cell | None
    """The row that the claim is about; None if it is missing, and for `fails`."""
    other: str
    """The requested engine of the other row."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    failed: int | None = None
    """For `fails`: the number of attempts that crashed, of `attempts`."""
    attempts: int | None = None
    why: str | None = None
    """Why there is no ratio."""
    tiers: tuple[str | None, str | None] = (None, None)
    """Tiers of the two rows."""

    @property
    def across(self) -> bool:
        """Whether the ratio compares two tiers."""
        return self.ratio is not None and self.tiers[0] != self.tiers[1]


@dataclass(frozen=True)
class Shortfall:
    """A parameter with a smaller value than a finding needs."""

    parameter: str
    needed: int
    largest: int
    """The largest value in the run."""


@dataclass(frozen=True)
class FindingResult:
    """A finding with this run's verdict."""

    finding: Finding
    kind: str
    """One of the kinds of `Check`, 'not checked' or 'not checked at this size'."""
    checks: tuple[Check, ...]
    left_out: tuple[str, ...]
    """Engines of the finding that are not in the run."""
    shortfalls: tuple[Shortfall, ...] = ()
    """Why the finding is not checked at this size."""


def check(run: Run, findings: Sequence[Finding]) -> list[FindingResult]:
    """Returns a result for each finding, in order. A single contradiction contradicts a finding. Otherwise a single
    reversed ratio makes it reversed, or else a single unclear ratio makes it unclear."""
    engines = {cell.asked for cell in run.cells if not cell.floor}
    results = []
    for finding in findings:
        checks = list[Check]()
        if finding.claims:
            shortfalls = tuple(_shortfalls(run, finding))
        else:
            shortfalls = ()
        for claim in () if shortfalls else finding.claims:
            if claim.of not in engines:
                checks.append(Check(claim, UNCLEAR, "", None, "", why="it is not in the run"))
            elif claim.relation == FAILS:
                checks.append(_failures(run, claim))
            else:
                checks += (each for phase in claim.phases for each in _ratios(run, claim, phase, engines))
        kinds = {each.kind for each in checks}
        kind = next((kind for kind in (CONTRADICTED, REVERSED, UNCLEAR, CONFIRMED) if kind in kinds), UNCLEAR)
        if shortfalls:
            kind = TOO_SMALL
        elif not finding.claims:
            kind = UNCHECKED
        names = dict.fromkeys(name for claim in finding.claims for name in (claim.of, *claim.than))
        left_out = tuple(name for name in names if name not in engines)
        results.append(FindingResult(finding, kind, tuple(checks), left_out, shortfalls))
    return results


def _shortfalls(run: Run, finding: Finding) -> Iterator[Shortfall]:
    """Yields the finding's needs that no row of the run meets. A parameter that an earlier file lacks counts as
    met."""
    for parameter, needed in finding.needs.items():
        values = [cell.params.get(parameter) for cell in run.cells if not cell.floor]
        known = [value for value in values if isinstance(value, int)]
        if known and max(known) < needed:
            yield Shortfall(parameter, needed, max(known))


# -- ratios -----------------------------------------------------------------------------------------------


def _ratios(run: Run, claim: Claim, phase: str, engines: set[str]) -> Iterator[Check]:
    rows = [row for row in summarize(run) if not row.cell.floor]
    others = [row for row in rows if row.phase == (claim.than_phase or phase)]
    claimed = [
        row
        for row in rows
        if row.phase == phase and row.cell.asked == claim.of and _fits(row.cell, claim, claim.of_params)
    ]
    if not claimed:
        reasons = (a.why for a in absences(run) if a.phase == phase and a.cell.asked == claim.of)
        yield Check(claim, UNCLEAR, phase, None, "", why=next(reasons, NOT_MEASURED))
    for row in claimed:
        for name in claim.than:
            # Engines that are not in the run are listed in `FindingResult.left_out`.
            if name in engines:
                # Both rows have the same parameters, except where the claim says that they differ.
                wanted = {**row.cell.params, **claim.than_params}
                same = [other for other in others if other.cell.asked == name and other.cell.params == wanted]
                first = same[0] if same else None
                other = next((other for other in same if other.cell.tier == row.cell.tier), first)
                yield _ratio(row, other, name, claim)


def _fits(cell: Cell, claim: Claim, own: Mapping[str, object]) -> bool:
    shared = all(cell.params.get(name) in values for name, values in claim.params.items() if name not in own)
    return shared and all(cell.params.get(name) == value for name, value in own.items())


def _ratio(row: CellSummary, other: CellSummary | None, name: str, claim: Claim) -> Check:
    if other is None:
        why = NOT_MEASURED
    else:
        why = _why_not(row, other, claim)
    if other is None or why:
        return Check(claim, UNCLEAR, row.phase, row.cell, name, why=why)
    tiers = row.cell.tier_name, other.cell.tier_name
    values, base = _values(row, claim, claim.metric), _values(other, claim, claim.than_fact or claim.metric)
    verdict = compare_pairs([(values[block], base[block]) for block in values if block in base])
    if verdict.low is None or verdict.high is None:
        short = f"{verdict.blocks} blocks have both; a ratio needs {FEWEST_BLOCKS}"
        return Check(claim, UNCLEAR, row.phase, row.cell, name, why=short, tiers=tiers)
    kind = UNCLEAR
    if verdict.high < claim.low or verdict.low > claim.high:
        kind = CONTRADICTED
    elif (verdict.high < 1 < claim.published) or (claim.published < 1 < verdict.low):
        kind = REVERSED
    elif claim.low < verdict.low and verdict.high < claim.high:
        kind = CONFIRMED
    return Check(claim, kind, row.phase, row.cell, name, verdict.ratio, verdict.low, verdict.high, tiers=tiers)


def _why_not(row: CellSummary, other: CellSummary, claim: Claim) -> str:
    """Returns why the two rows have no ratio; empty if they may have one."""
    for each in (row, other):
        # A row with failed operations has no figure, but its facts may be about these. A void row has no facts.
        if not each.valid and not (claim.fact and each.facts):
            return f"{each.cell.asked}: {each.why}"
        if each.temperature == "lukewarm" and any(sample.residency is not None for sample in each.samples):
            return f"{each.cell.asked} was not proven cold"
        if each.suspicion is not None:
            return f"{each.cell.asked}: its answers are suspicious ({each.suspicion.code})"
        if each.limit is not None and not claim.fact and not metric(claim.metric).needs:
            return f"{each.cell.asked}: {LIMITED}"
    if row.cell.tier != other.cell.tier and (row.about.writes or not claim.across_tiers):
        return f"tier {row.cell.tier_name} is not compared with tier {other.cell.tier_name}"
    if row.reported_by != other.reported_by:
        if None in (row.reported_by, other.reported_by):
            return "figures of an outside tool are not compared with Dyno's"
        if not claim.across_tools:
            return f"figures of {row.reported_by} are not compared with those of {other.reported_by}"
    return ""


def _values(row: CellSummary, claim: Claim, name: str) -> dict[int, float]:
    """Returns the row's values by block. Only facts that are numbers over zero count."""
    if not claim.fact:
        return speeds(row, metric(name))
    # A row without a figure has no samples, but its trials have.
    last = {attempt.block: attempt for attempt in row.attempts}.values()
    samples = [(attempt.block, sample) for attempt in last for sample in attempt.samples if sample.phase == row.phase]
    facts = {block: sample.bytes_on_disk if name == SIZE else sample.facts.get(name) for block, sample in samples}
    return {block: float(value) for block, value in facts.items() if isinstance(value, (int, float)) and value > 0}


# -- trials that fail -------------------------------------------------------------------------------------


def _failures(run: Run, claim: Claim) -> Check:
    """Checks a claim that trials fail. Counts the trials of all cells together, because a single cell has too few. A
    repeated trial counts again, because the claim is about how often trials fail."""
    cells = {
        at for at, cell in enumerate(run.cells) if cell.asked == claim.of and _fits(cell, claim, claim.of_params)
    }
    outcomes = [attempt.outcome for attempt in run.attempts if attempt.cell in cells]
    if not outcomes:
        return Check(claim, UNCLEAR, "", None, "", why=NOT_MEASURED)
    failed, attempts = outcomes.count(CRASH), len(outcomes)
    return Check(claim, _share(failed, attempts, claim.low), "", None, "", failed=failed, attempts=attempts)


def _share(failed: int, attempts: int, least: float) -> str:
    """Returns whether at least the share `least` of trials fails. The verdict is based on the probability of so many,
    or so few, failures if the share were exactly `least` (Clopper and Pearson, 1934)."""
    doubt = (1 - CONFIDENCE) / 2
    chances = [math.comb(attempts, n) * least**n * (1 - least) ** (attempts - n) for n in range(attempts + 1)]
    if sum(chances[failed:]) < doubt:
        return CONFIRMED
    if sum(chances[: failed + 1]) < doubt:
        return CONTRADICTED
    return UNCLEAR
