"""What a run says of the findings of a published experiment: confirmed, contradicted, or that it can't tell.

A claim bounds the ratio of two rows. It is compared block by block, as everywhere, with the interval of 99 % that all
ratios have. If the whole interval is within the bounds, the ratio confirms the claim, and contradicts it if the whole
interval is outside; else nobody can tell. So where the interval holds 1, no claim is confirmed that one is faster.

Rows of other tiers, rows that were not proven to be cold, and what an outside tool reported are in no ratio with
others here either. But where what was published compared two tiers, a claim may say why they make no difference to
it: then rows of phases that write nothing are in a ratio, and the tiers stand beside the verdict. A tier says what an
acknowledged write survives, which is in the time of what writes; a read acknowledges nothing. In the same way a claim
may say why the figures of two outside tools may be compared; what Dyno timed itself never is with either. No name of
a suite, a phase or an engine may be put here: claims bring theirs along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dyno.contracts.model import Fact
from dyno.contracts.sample import Cell, Sample
from dyno.published.findings import FAILS, Claim, Finding
from dyno.results import Run
from dyno.stats.compare import paired
from dyno.stats.metric import metric, speeds
from dyno.stats.summary import CellSummary, absences, summarize
from dyno.stats.verdict import CONFIDENCE, FEWEST_BLOCKS

CONFIRMED, CONTRADICTED, UNCLEAR, UNCHECKED = "confirmed", "contradicted", "can't tell", "not checked"
CRASH = "crash"
SIZE = "bytes_on_disk"


@dataclass(frozen=True)
class Check:
    """One ratio of two rows against a claim; or how many trials failed."""

    claim: Claim
    kind: str
    """'confirmed', 'contradicted' or "can't tell"."""
    phase: str
    """Nothing, of `fails`."""
    cell: Cell | None
    """The row of which something is claimed; None where there is none, and of `fails`."""
    other: str
    """The engine of the row beside it, as it was asked for."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    failed: int | None = None
    """Of `fails`: trials that crashed, of so many attempts."""
    attempts: int | None = None
    why: str | None = None
    """Why there is no ratio."""
    tiers: tuple[str | None, str | None] = (None, None)
    """Of the two rows."""

    @property
    def across(self) -> bool:
        """Whether rows of two tiers are in its ratio."""
        return self.ratio is not None and self.tiers[0] != self.tiers[1]


@dataclass(frozen=True)
class FindingResult:
    """A finding with what this run says of it."""

    finding: Finding
    kind: str
    """As of a check, or 'not checked'."""
    checks: tuple[Check, ...]
    left_out: tuple[str, ...]
    """Engines that the finding speaks of and that are not in the run."""

    def count(self, kind: str) -> int:
        return sum(check.kind == kind for check in self.checks)


def check(run: Run, findings: Sequence[Finding]) -> list[FindingResult]:
    """Each finding, in order. One contradiction contradicts it, since it speaks of all that it names; one ratio that
    can't be told leaves it open."""
    return [_found(run, finding) for finding in findings]


def _found(run: Run, finding: Finding) -> FindingResult:
    if not finding.claims:
        return FindingResult(finding, UNCHECKED, (), ())
    there = {cell.asked for cell in run.cells if not cell.floor}
    checks = tuple(each for claim in finding.claims for each in _checks(run, claim, there))
    kinds = {each.kind for each in checks}
    kind = next((kind for kind in (CONTRADICTED, UNCLEAR, CONFIRMED) if kind in kinds), UNCLEAR)
    spoken = dict.fromkeys(name for claim in finding.claims for name in (claim.of, *claim.than))
    return FindingResult(finding, kind, checks, tuple(name for name in spoken if name not in there))


def _checks(run: Run, claim: Claim, there: set[str]) -> Iterator[Check]:
    if claim.of not in there:
        yield Check(claim, UNCLEAR, "", None, "", why="it is not in the run")
    elif claim.relation == FAILS:
        yield from _failures(run, claim)
    else:
        for phase in claim.phases:
            yield from _ratios(run, claim, phase, there)


# -- ratios -----------------------------------------------------------------------------------------------


def _ratios(run: Run, claim: Claim, phase: str, there: set[str]) -> Iterator[Check]:
    whole = [row for row in summarize(run) if not row.cell.floor]
    rows = [row for row in whole if row.phase == phase]
    others = [row for row in whole if row.phase == (claim.than_phase or phase)]
    mine = [row for row in rows if row.cell.asked == claim.of and _fits(row.cell, claim, claim.of_params)]
    if not mine:
        yield Check(claim, UNCLEAR, phase, None, "", why=_why_none(run, claim, phase))
    for row in mine:
        for name in claim.than:
            # One that nobody has here says nothing, and is named: see `FindingResult.left_out`.
            if name in there:
                yield _ratio(row, _beside(others, row, claim, name), name, claim)


def _fits(cell: Cell, claim: Claim, own: Mapping[str, object]) -> bool:
    shared = all(cell.params.get(name) in values for name, values in claim.params.items() if name not in own)
    return shared and all(cell.params.get(name) == value for name, value in own.items())


def _why_none(run: Run, claim: Claim, phase: str) -> str:
    absent = (a.why for a in absences(run) if a.phase == phase and a.cell.asked == claim.of)
    return next(absent, "nothing like it was measured")


def _beside(rows: Sequence[CellSummary], row: CellSummary, claim: Claim, name: str) -> CellSummary | None:
    """The other row of a ratio: with the same parameters, but for those in which the claim has the two differ."""
    wanted = {**row.cell.params, **claim.than_params}
    same = [other for other in rows if other.cell.asked == name and other.cell.params == wanted]
    return next((other for other in same if other.cell.tier == row.cell.tier), same[0] if same else None)


def _ratio(row: CellSummary, other: CellSummary | None, name: str, claim: Claim) -> Check:
    why = "nothing like it was measured" if other is None else _why_not(row, other, claim)
    if other is None or why:
        return Check(claim, UNCLEAR, row.phase, row.cell, name, why=why)
    tiers = row.cell.tier_name, other.cell.tier_name
    mine, base = _values(row, claim, claim.metric), _values(other, claim, claim.than_fact or claim.metric)
    verdict = paired([(mine[block], base[block]) for block in mine if block in base])
    if verdict.low is None or verdict.high is None:
        short = f"{verdict.blocks} blocks have both, and a ratio takes {FEWEST_BLOCKS}"
        return Check(claim, UNCLEAR, row.phase, row.cell, name, why=short, tiers=tiers)
    kind = _kind(claim, verdict.low, verdict.high)
    return Check(claim, kind, row.phase, row.cell, name, verdict.ratio, verdict.low, verdict.high, tiers=tiers)


def _why_not(row: CellSummary, other: CellSummary, claim: Claim) -> str:
    """Why the two are in no ratio; nothing where they may be."""
    for each in (row, other):
        if not each.valid:
            return f"{each.cell.asked}: {each.why}"
        if each.temperature == "lukewarm" and any(sample.residency is not None for sample in each.samples):
            return f"{each.cell.asked} was not proven to be cold"
    if row.cell.tier != other.cell.tier and (row.about.writes or not claim.across_tiers):
        return f"tier {row.cell.tier_name} is not compared with tier {other.cell.tier_name}"
    if row.reported_by != other.reported_by:
        if None in (row.reported_by, other.reported_by):
            return "what an outside tool reported is not compared with what Dyno timed"
        if not claim.across_tools:
            return f"what {row.reported_by} reported is not compared with what {other.reported_by} did"
    return ""


def _values(row: CellSummary, claim: Claim, name: str) -> dict[int, float]:
    """By block. Of a fact only what is a number over zero."""
    if not claim.fact:
        return speeds(row, metric(name))
    told = zip(row.blocks, (_fact(sample, name) for sample in row.samples), strict=True)
    return {block: float(value) for block, value in told if isinstance(value, (int, float)) and value > 0}


def _fact(sample: Sample, name: str) -> Fact | None:
    """What the suite tells; or the size on disk, which every suite's samples have."""
    return sample.bytes_on_disk if name == SIZE else sample.facts.get(name)


def _kind(claim: Claim, low: float, high: float) -> str:
    if claim.low < low and high < claim.high:
        return CONFIRMED
    return CONTRADICTED if high < claim.low or low > claim.high else UNCLEAR


# -- trials that fail -------------------------------------------------------------------------------------


def _failures(run: Run, claim: Claim) -> Iterator[Check]:
    """Of all cells together, since a cell has too few trials to tell. A repeated trial counts again, as the statement
    is about what happens."""
    cells = {
        at for at, cell in enumerate(run.cells) if cell.asked == claim.of and _fits(cell, claim, claim.of_params)
    }
    outcomes = [attempt.outcome for attempt in run.attempts if attempt.cell in cells]
    if not outcomes:
        yield Check(claim, UNCLEAR, "", None, "", why="nothing like it was measured")
        return
    failed, attempts = outcomes.count(CRASH), len(outcomes)
    yield Check(claim, _share(failed, attempts, claim.low), "", None, "", failed=failed, attempts=attempts)


def _share(failed: int, attempts: int, least: float) -> str:
    """Whether at least this share of trials fails: by the chance of so many, or so few, if it were just that share
    (Clopper and Pearson, 1934)."""
    doubt = (1 - CONFIDENCE) / 2
    chances = [math.comb(attempts, n) * least**n * (1 - least) ** (attempts - n) for n in range(attempts + 1)]
    if sum(chances[failed:]) < doubt:
        return CONFIRMED
    return CONTRADICTED if sum(chances[: failed + 1]) < doubt else UNCLEAR
