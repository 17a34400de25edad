"""What was found in a published experiment, and what a run says of it: each statement with its verdict, and the
ratios that make it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dyno.published import Experiment
from dyno.published.findings import ABOUT, FAILS, LESS, MORE, Claim
from dyno.report.tables import grid, row_titles, units, wording
from dyno.report.tables.display_limits import listed
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats import findings
from dyno.stats.findings import CONFIRMED, CONTRADICTED, UNCHECKED, UNCLEAR, Check, FindingResult

STYLES = {CONFIRMED: "green", CONTRADICTED: "bold red", UNCLEAR: "yellow", UNCHECKED: "dim"}
INDENT = max(map(len, STYLES)) + 2
LEGEND = (
    f"Ratios are of speeds, block by block, with their interval of {wording.LEVEL}; of several values of a parameter,"
    " from the lower end of the lowest interval to the upper end of the highest. A claim is confirmed where the whole"
    " interval bears it out, and contradicted where all of it speaks against it. A finding is confirmed if all of its"
    " ratios confirm it, and contradicted if one contradicts it."
)
Names = Mapping[str, str]


def render(experiment: Experiment, run: Run, console: Console) -> None:
    found = findings.check(run, experiment.findings)
    names = {each.engine: each.title for each in experiment.contenders}
    console.print()
    console.print(Text(f"What was found there, and what this run says of it: {summary(found)}", "bold"))
    for each in found:
        console.print()
        said = f"“{each.finding.says}”" if each.finding.says else each.finding.shows
        console.print(Text.assemble((f"{each.kind:<{INDENT}}", STYLES[each.kind]), said))
        for line in _said(each, names):
            console.print(Padding(Text(line, "dim"), (0, 0, 0, INDENT), expand=False))
        if each.checks:
            _table(each, run, names, console)
    console.print()
    console.print(Text(LEGEND, "dim"))


def summary(found: list[FindingResult]) -> str:
    """'2 confirmed, 1 contradicted, 3 can't tell'."""
    kinds = [each.kind for each in found]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in STYLES if kind in kinds)


def _said(found: FindingResult, names: Names) -> Iterator[str]:
    finding = found.finding
    if finding.unchecked:
        yield finding.unchecked
    if finding.read_as:
        yield f"taken as: {finding.read_as}"
    for why in dict.fromkeys(check.claim.across_tiers for check in found.checks if check.across):
        yield f"rows of two tiers, which Dyno ranks nowhere else: {why}"
    for why in dict.fromkeys(check.claim.across_tools for check in found.checks if check.ratio is not None):
        if why:
            yield f"figures of two tools, which Dyno compares nowhere else: {why}"
    if found.left_out:
        yield f"without {listed([names.get(name, name) for name in found.left_out])}: not run here"
    if len({check.kind for check in found.checks}) > 1:
        told = [f"{count} {kind}" for kind in STYLES if (count := found.count(kind))]
        yield f"of {len(found.checks)} ratios: {', '.join(told)}"


def _table(found: FindingResult, run: Run, names: Names, console: Console) -> None:
    changing = _changing(run)

    def key(check: Check) -> tuple[object, ...]:
        """Of checks that differ in nothing but the last of these parameters."""
        params = {} if check.cell is None else check.cell.params
        others = [repr(params.get(name)) for name in changing[:-1]]
        told = check.kind, check.why or "", _tiers(check)
        return found.finding.claims.index(check.claim), check.phase, check.other, *others, *told

    rows = [_row(list(group), changing, names) for _, group in groupby(sorted(found.checks, key=key), key)]
    # Phase, claim, parameters, verdict, figures, tiers.
    columns = [grid.Column("", left=True, folds=True, key=at < 2) for at in range(6)]
    marks = STYLES | {_tiers(check): "yellow" if check.across else "dim" for check in found.checks}
    grid.render(columns, rows, console, marks=marks, indent=INDENT)


def _changing(run: Run) -> list[str]:
    """The parameters that vary; the one with the most values, which is the axis of a chart, comes last."""
    counts = {name: len({cell.params[name] for cell in run.cells}) for name in varying(run)}
    return sorted(counts, key=lambda name: counts[name])


def _row(checks: list[Check], changing: list[str], names: Names) -> list[str]:
    first = checks[0]
    params = {
        name: tuple(dict.fromkeys(check.cell.params[name] for check in checks if check.cell is not None))
        for name in changing
        if first.cell is not None and name not in first.claim.of_params
    }
    return [
        first.phase,
        _claimed(first, names),
        units.params(params),
        first.kind,
        _figures(checks),
        _tiers(first),
    ]


def _tiers(check: Check) -> str:
    """'tier power'; of two, 'tier volatile against tier power'. Nothing where there is no ratio, which says why."""
    if check.ratio is None:
        return ""
    return " against ".join(
        dict.fromkeys(row_titles.tier(tier) or "no tier" for tier in check.tiers if any(check.tiers))
    )


def _claimed(check: Check, names: Names) -> str:
    """'MySQL faster than ZEO'."""
    claim = check.claim
    one = _side(claim.of, claim.of_params, names)
    if claim.relation == FAILS:
        return f"{one}: at least {claim.low * 100:g} % of trials crash"
    than = check.other or (claim.than[0] if len(claim.than) == 1 else "")
    other = _side(than, claim.than_params, names) if than else "the others"
    what = f"{claim.metric} of " if claim.fact else ""
    beside = f"{claim.than_fact} of " if claim.than_fact else ""
    where = f" in {claim.than_phase}" if claim.than_phase else ""
    return f"{what}{one} {_relation(claim)} {beside}{other}{where}{_bound(claim)}"


def _side(engine: str, params: Mapping[str, object], names: Names) -> str:
    name = names.get(engine, engine)
    return f"{name} with {units.params(params)}" if params else name


def _relation(claim: Claim) -> str:
    if claim.relation == ABOUT:
        return f"{wording.figure(claim.low)} to {wording.figure(claim.high)} times that of"
    more, less = ("more than", "less than") if claim.fact else ("faster than", "slower than")
    return more if claim.relation in MORE else less


def _bound(claim: Claim) -> str:
    """', by a factor of at least 2': nothing where any will do."""
    if claim.relation not in (*MORE, *LESS):
        return ""
    least, most = (claim.low, claim.high) if claim.relation in MORE else (_inverse(claim.high), _inverse(claim.low))
    parts = [f"at least {least:g}"] if least > 1 else []
    parts += [f"at most {most:g}"] if most != float("inf") else []
    return f", by a factor of {' and '.join(parts)}" if parts else ""


def _inverse(value: float) -> float:
    return 1 / value if value else float("inf")


def _figures(checks: list[Check]) -> str:
    first = checks[0]
    if first.why is not None:
        return first.why
    if first.failed is not None:
        return f"{units.count(first.failed)} of {units.count(first.attempts)} trials"
    lows, highs = ([end for check in checks if (end := getattr(check, name)) is not None] for name in ("low", "high"))
    between = wording.span(min(lows), max(highs))
    return f"{wording.figure(first.ratio, max(highs) - min(lows))} [{between}]" if len(checks) == 1 else between
