"""The findings of a published experiment, checked against a run: each has a verdict and its ratios."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby

from dyno.published import Experiment
from dyno.published.claims import ABOUT, FAILS, LESS
from dyno.report.tables import display, units, wording
from dyno.report.tables.sections import Section
from dyno.report.tables.table import varying_params
from dyno.results import Run
from dyno.stats import findings
from dyno.stats.findings import (
    CONFIRMED,
    CONTRADICTED,
    REVERSED,
    TOO_SMALL,
    UNCHECKED,
    UNCLEAR,
    Check,
    FindingResult,
)
from dyno.stats.metric import metric

STYLES = {
    CONFIRMED: "green",
    CONTRADICTED: "bold red",
    REVERSED: "bold red",
    UNCLEAR: "yellow",
    TOO_SMALL: "dim",
    UNCHECKED: "dim",
}
HEADS = ("phase", "metric", "claim", "where", "verdict", "ratio", "tier")
RATIO = HEADS.index("ratio")
AGAINST = " against "
LEGEND = (
    "Ratios are of facts, such as sizes, or of speeds: of a latency or CPU time, the inverse. They are taken block by"
    f" block, with intervals of {wording.LEVEL}; for several values of a parameter, from the lowest to the highest"
    " end of all intervals. A claim is confirmed if the whole interval agrees with it, contradicted if it disagrees,"
    " and otherwise reversed if it is on the other side of 1 than the published ratio. A finding is confirmed if all"
    " of its ratios confirm it, contradicted if one contradicts it, and otherwise reversed if one is reversed. It is"
    " not checked at a smaller size than it needs."
)


def sections(experiment: Experiment, run: Run) -> Iterator[Section]:
    """Yields a section for each finding, with its verdict and ratios. The reason why several rows have no ratio is
    printed once, with a number that the rows have."""
    results = findings.check(run, experiment.findings)
    verdict_counts = counts([result.kind for result in results])
    yield Section("Published findings, and whether this run confirms them", verdict_counts)
    tables = [list(_rows(result, run, experiment)) for result in results]
    reasons = {check.why for result in results for check in result.checks}
    shown_counts = Counter(row[RATIO] for rows in tables for row in rows if row[RATIO] in reasons)
    repeated = [why for why, count in shown_counts.items() if count > 1]
    notes = {why: f"({number})" for number, why in enumerate(repeated, 1)}
    for result, whole in zip(results, tables, strict=True):
        rows = [tuple(notes.get(cell, cell) for cell in row) for row in whole]
        if result.finding.says:
            text = f"“{result.finding.says}”"
        else:
            text = result.finding.shows
        marks = STYLES | {row[-1]: "yellow" if AGAINST in row[-1] else "dim" for row in rows}
        lines = list(_notes(result, experiment))
        # A finding without parameters or tiers gets no empty columns for them.
        shown = [at for at in range(len(HEADS)) if not rows or any(row[at] for row in rows)]
        heads = tuple(HEADS[at] for at in shown)
        rows = [tuple(row[at] for at in shown) for row in rows]
        yield Section(result.kind, text, heads, rows, heads, heads[:3], lines, marks=marks)
    yield Section("", lines=[f"{note} {why}" for why, note in notes.items()], legend=[LEGEND])


def counts(kinds: list[str]) -> str:
    """Counts verdicts: '2 confirmed, 1 contradicted, 3 can't tell'."""
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in STYLES if kind in kinds)


def _notes(result: FindingResult, experiment: Experiment) -> Iterator[str]:
    finding = result.finding
    if finding.unchecked:
        yield finding.unchecked
    if result.shortfalls:
        yield shortfalls(result)
    if finding.read_as:
        yield f"read as: {finding.read_as}"
    for why in dict.fromkeys(check.claim.across_tiers for check in result.checks if check.across):
        yield f"compares rows of two tiers, which Dyno does nowhere else: {why}"
    for why in dict.fromkeys(check.claim.across_tools for check in result.checks if check.ratio is not None):
        if why:
            yield f"compares figures of two tools, which Dyno does nowhere else: {why}"
    if result.left_out:
        yield f"without {display.join_names(list(map(experiment.name_of, result.left_out)))}: not run here"
    kinds = [check.kind for check in result.checks]
    if len(set(kinds)) > 1:
        yield f"of {len(kinds)} ratios: {counts(kinds)}"


def shortfalls(result: FindingResult) -> str:
    """Returns why a finding is not checked at this size: 'needs rows=1,430,394, here 50,000'."""
    return "; ".join(
        f"needs {each.parameter}={units.count(each.needed)}, here {units.count(each.largest)}"
        for each in result.shortfalls
    )


def _rows(result: FindingResult, run: Run, experiment: Experiment) -> Iterator[tuple[str, ...]]:
    """Yields a row for each claim and place. Checks that differ only in the parameter with the most values share a
    row."""
    values = {name: len({cell.params[name] for cell in run.cells}) for name in varying_params(run)}
    changing = sorted(values, key=lambda name: values[name])

    def key(check: Check) -> tuple[object, ...]:
        params = {} if check.cell is None else check.cell.params
        others = [repr(params.get(name)) for name in changing[:-1]]
        outcome = check.kind, check.why or "", _tiers(check)
        return result.finding.claims.index(check.claim), check.phase, check.other, *others, *outcome

    for _, group in groupby(sorted(result.checks, key=key), key):
        checks = list(group)
        first = checks[0]
        params = {
            name: tuple(dict.fromkeys(check.cell.params[name] for check in checks if check.cell is not None))
            for name in changing
            if first.cell is not None and name not in first.claim.of_params
        }
        where = units.params(params)
        yield (
            first.phase,
            _metric(first),
            _claim(first, experiment),
            where,
            first.kind,
            figures(checks),
            _tiers(first),
        )


def _metric(check: Check) -> str:
    """Returns what a claim compares: 'bandwidth', or 'fresh_per_second against steady_per_second'."""
    claim = check.claim
    if claim.relation == FAILS:
        return "crashes"
    if claim.fact:
        name = claim.metric
    else:
        name = metric(claim.metric).title
    if claim.than_fact:
        return f"{name}{AGAINST}{claim.than_fact}"
    return name


def _tiers(check: Check) -> str:
    """Returns 'tier power' or 'tier volatile against tier power'; empty if a reason is printed instead of a ratio."""
    if check.ratio is None:
        return ""
    tiers = [display.tier(tier) or "no tier" for tier in check.tiers if any(check.tiers)]
    return AGAINST.join(dict.fromkeys(tiers))


def _claim(check: Check, experiment: Experiment) -> str:
    """Returns a claim in words: 'MySQL faster than ZEO, by a factor of at least 2'."""
    claim = check.claim

    def side(engine: str, phase: str, params: Mapping[str, object]) -> str:
        name = experiment.name_of(engine, phase)
        if params:
            return f"{name} with {units.params(params)}"
        return name

    one = side(claim.of, check.phase, claim.of_params)
    if claim.relation == FAILS:
        return f"{one}: at least {claim.low * 100:g} % of trials crash"
    than = check.other or (claim.than[0] if len(claim.than) == 1 else "")
    if than:
        other = side(than, claim.than_phase or check.phase, claim.than_params)
    else:
        other = "the others"
    if claim.than_phase:
        where = f" in {claim.than_phase}"
    else:
        where = ""
    if claim.relation == ABOUT:
        if claim.fact:
            times = "times that of"
        else:
            times = "times as fast as"
        relation, bounds = f"{units.ratio(claim.low)} to {units.ratio(claim.high)} {times}", []
    else:
        if claim.fact:
            more = "more than"
            less = "less than"
        else:
            more = "faster than"
            less = "slower than"
        relation = more
        least = claim.low
        most = claim.high
        if claim.relation in LESS:
            relation = less
            least = 1 / claim.high
            most = 1 / claim.low if claim.low else math.inf
        bounds = [f"at least {least:g}"] if least > 1 else []
        bounds += [f"at most {most:g}"] if most != math.inf else []
    if bounds:
        bound = f", by a factor of {' and '.join(bounds)}"
    else:
        bound = ""
    if claim.published != 1:
        bound = f", published {units.ratio(claim.published)}"
    return f"{one} {relation} {other}{where}{bound}"


def figures(checks: list[Check]) -> str:
    """Returns the ratio and its interval, or for several checks the interval from the lowest to the highest end."""
    first = checks[0]
    if first.why is not None:
        return first.why
    if first.failed is not None:
        return f"{units.count(first.failed)} of {units.count(first.attempts)} trials"
    low = min(check.low for check in checks if check.low is not None)
    high = max(check.high for check in checks if check.high is not None)
    interval = units.ratio_interval(low, high)
    if len(checks) == 1:
        return f"{units.ratio(first.ratio, low, high)} [{interval}]"
    return interval
