"""A published experiment's figures next to this run's. No ratio of the two is shown, because they come from different
machines. The findings of the published text are checked against this run alone: each has a verdict and its ratios."""

import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from statistics import mean, stdev

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dyno.published import ABOUT, FAILS, LESS, Curves, Experiment, Matrix, PublishedCurve, Style
from dyno.report.replicate import rates
from dyno.report.tables import display, sections, sweeps, units, wide, wording
from dyno.report.tables.sections import REMARKS, Column, Section, print_table
from dyno.report.tables.table import groups, varying
from dyno.results import Run
from dyno.stats import findings
from dyno.stats.doubts import doubts
from dyno.stats.estimate import estimate
from dyno.stats.findings import CONFIRMED, CONTRADICTED, UNCHECKED, UNCLEAR, Check, FindingResult
from dyno.stats.metric import estimated, metric
from dyno.stats.summary import CellSummary, summarize
from dyno.stats.sweep import Growth, growths

BETWEEN = "│"
CLIENTS = "clients"
MEANS = (
    "mean: the published style, of all trials, with their standard deviation in percent; right of it ours, the median"
    " over all trials, with its interval"
)
NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Units of published times. This run's times are printed in the same unit."""
STYLES = {CONFIRMED: "green", CONTRADICTED: "bold red", UNCLEAR: "yellow", UNCHECKED: "dim"}
INDENT = max(map(len, STYLES)) + 2
LEGEND = (
    f"Ratios are of speeds, block by block, with intervals of {wording.LEVEL}; for several values of a parameter,"
    " from the lowest to the highest end of all intervals. A claim is confirmed if the whole interval agrees with it,"
    " and contradicted if the whole interval disagrees. A finding is confirmed if all of its ratios confirm it, and"
    " contradicted if one contradicts it."
)


def render(experiment: Experiment, run: Run, console: Console, missing: Mapping[str, str] | None = None) -> None:
    """Prints the published figures and this run's (medians over trials), then the findings. `missing`: engines that
    can't run here, with the reason."""
    console.print(Text(experiment.citation, "bold"))
    console.print(f"published on: {experiment.machine}")
    sections.render(_sections(experiment, run), console, aligned=False)
    console.print()
    absent = [each for each in experiment.contenders if each.engine in (missing or {})]
    lines = [f"{each.published_as}: not run here: {each.engine} {(missing or {})[each.engine]}" for each in absent]
    for line in (*lines, *experiment.notes):
        console.print(Text(f"  {line}"), soft_wrap=True)
    if experiment.findings:
        _render_findings(experiment, run, console)


def _sections(experiment: Experiment, run: Run) -> Iterator[Section]:
    if experiment.lines:
        yield _wide_section(experiment, run)
    elif experiment.rows:
        yield _rows_section(experiment, run)
    yield from rates.sections(experiment, run)
    if experiment.matrix is not None:
        yield from _matrix_sections(experiment.matrix, run)
    yield from _parts_sections(experiment, run)
    if experiment.curves is not None:
        yield from _curve_sections(experiment.curves, run)
    if experiment.style is not None:
        yield _style_section(experiment, experiment.style, run)
    if experiment.grows is not None:
        parameter = experiment.grows.parameter
        yield from sweeps.growth_sections(growths(run, parameter), parameter, experiment.grows.names)


def _rows_section(experiment: Experiment, run: Run) -> Section:
    deviations = any(row.deviation_percent is not None for row in experiment.rows)
    parameter = experiment.grows.parameter if experiment.grows else ""
    ours = {(row.cell.asked, row.phase, row.cell.params.get(parameter)): row for row in summarize(run)}
    curves = {(each.cell.asked, each.phase): each for each in growths(run, parameter)} if parameter else {}
    smallest = min((each for _, _, each in ours if isinstance(each, (int, float))), default=None)
    heads = ["published", "mode", "items", "time", "per second", f"{BETWEEN} ours"]
    heads += ["items", "mean", "time", "per second", "[95 %]", REMARKS]
    rows = list[list[str]]()
    previous = None
    for row in experiment.rows:
        if previous not in (None, row.engine):
            rows.append([*[""] * 5, BETWEEN, *[""] * 6])
        previous = row.engine
        summary = ours.get((row.engine, row.phase, smallest if row.at is None else row.at))
        curve = curves.get((row.engine, row.phase))
        published = [row.published_as, row.phase, units.count(row.items)]
        published += [_mean(row.seconds * 1e9, row.deviation_percent), units.rate(row.per_second)]
        if summary is not None:
            remarks = ", ".join(doubt.short for doubt in doubts(summary, run))
            rows.append([*published, *_measured(summary), remarks])
        elif row.at is not None and curve is not None:
            rows.append([*published, *_extrapolated(row.at, curve)])
        else:
            rows.append([*published, f"{BETWEEN} {row.engine}: not here", *[""] * 6])
    if not deviations:
        at = heads.index("mean")
        heads, *rows = ([*cells[:at], *cells[at + 1 :]] for cells in (heads, *rows))
    left, keys = ("published", "mode", f"{BETWEEN} ours", REMARKS), ("published", "mode")
    return Section("", "", heads, rows, left, keys, rigid=("mode",), legend=[MEANS] if deviations else [])


def _mean(ns: float, deviation_percent: float | None) -> str:
    return units.long_duration(ns) + ("" if deviation_percent is None else f" ± {deviation_percent:.2f} %")


def _extrapolated(at: float, curve: Growth) -> list[str]:
    """Returns this run's cells of a row that is extrapolated to the size `at`. The rate is left out if the number of
    items is not proportional to the size."""
    name = f"{BETWEEN} {display.named(curve.cell.asked, curve.cell.tier_name or '')}"
    if curve.fit is None:
        return [name, *[""] * 5, f"not extrapolated: {len(curve.points)} measured sizes are too few"]
    predicted, items, remark = curve.fit.at(at), curve.items_at(at), "extrapolated, not measured"
    time = units.long_duration(predicted.middle)
    if items is None:
        return [name, "", "", time, "", "", remark]
    rate, low, high = (items / ns * 1e9 for ns in (predicted.middle, predicted.high, predicted.low))
    return [name, units.count(round(items)), "", time, units.rate(rate), units.interval(low, high), remark]


def _measured(summary: CellSummary) -> list[str]:
    name = f"{BETWEEN} {display.named(summary.cell.asked, summary.cell.tier_name or '')}"
    rate, times = summary.throughput, [sample.elapsed_ns for sample in summary.samples if sample.elapsed_ns > 0]
    if rate is None:
        return [name, "", "", "", (summary.why or "").split(":", 1)[0], ""]
    trial_mean = units.UNKNOWN
    if times:
        # The standard deviation is over n - 1; a single trial has none.
        deviation = stdev(times) / mean(times) * 100 if len(times) > 1 else None
        trial_mean = _mean(mean(times), deviation)
    time, per_second = units.duration(summary.elapsed_ns), units.rate(rate.median)
    return [name, units.count(summary.items), trial_mean, time, per_second, units.interval(rate.low, rate.high)]


def _wide_section(experiment: Experiment, run: Run) -> Section:
    ours = [(own, line) for own in wide.tables(run, groups(run)) for line in own.lines]
    names, figures = list(experiment.lines[0].params), list(experiment.lines[0].figures)
    rows = list[list[str]]()
    for published in experiment.lines:
        row = [*map(str, published.params.values())]
        for value in published.figures.values():
            if isinstance(value, float) and value < 10:
                row.append(f"{value:.2f}")
            else:
                row.append(value if isinstance(value, str) else units.rate(value))
        row.append(BETWEEN)
        for own, line in ours:
            if all(line.cell.params.get(name) == value for name, value in published.params.items()):
                texts = dict(zip(own.heads, line.cells, strict=True))
                row += [*(texts.get(head, units.UNKNOWN) for head in figures), ", ".join(line.remarks)]
                break
        else:
            row += [*[units.UNKNOWN] * len(figures), "not measured"]
        rows.append(row)
    heads = [*names, *figures, BETWEEN, *figures, REMARKS]
    remark = f"left of {BETWEEN}: published; right: this run"
    return Section("", remark, heads, rows, [*names, REMARKS], names, rigid=names)


def _matrix_sections(matrix: Matrix, run: Run) -> Iterator[Section]:
    """Yields the published table as printed, and below it the same figure of this run."""
    title, heads = f"{matrix.title}, published", ("", *matrix.heads)
    yield Section(title, "", heads, matrix.lines, left=("",), keys=("",), rigid=("",))
    rows = []
    for row in summarize(run):
        if row.phase == matrix.phase and row.valid and not row.cell.floor:
            times = row.latency_by_part_ns.get(matrix.part) or {}
            params = units.params({name: row.cell.params[name] for name in varying(run)})
            rows.append((row.cell.asked, params, *(units.duration(times.get(name)) for name in ("p50", "p99"))))
    keys = ("engine", "parameters")
    title = f"{matrix.title}, here: {matrix.part} of {matrix.phase}"
    yield Section(title, heads=(*keys, "p50", "p99"), rows=rows, left=keys, keys=keys, rigid=keys)


def _parts_sections(experiment: Experiment, run: Run) -> Iterator[Section]:
    for phase, published in experiment.parts.items():
        ours = [row for row in summarize(run) if not row.cell.floor and row.valid and row.phase == phase]
        rows = list[tuple[str, ...]]()
        for part, seconds in published.items():
            medians = ((row.latency_by_part_ns.get(part) or {}).get("p50") for row in ours)
            rows.append((part, units.duration(seconds * 1e9), *map(units.duration, medians)))
        whole = (sum(published.values()) * 1e9, *(row.latency_ns["p50"] for row in ours))
        rows.append(("all", *map(units.duration, whole)))
        names = (f"{row.cell.asked} {units.params(row.cell.params, varying(run))}".rstrip() for row in ours)
        heads = (phase, "published", *(f"{BETWEEN} {name}, p50" for name in names))
        yield Section("", heads=heads, rows=rows, left=(phase,), keys=(phase,), rigid=(phase,))


def _curve_sections(curves: Curves, run: Run) -> Iterator[Section]:
    """Yields a table for each phase. Each cell has the published figure and this run's. Rows that have neither are
    left out."""
    by = metric(curves.metric)
    ours = {(row.cell.asked, row.phase, row.cell.params.get(curves.parameter)): row for row in summarize(run)}
    yield Section("", f"published {BETWEEN} ours, {by.title}, in {curves.unit}")

    def cell(column: PublishedCurve, at: int, value: float) -> str:
        theirs = f"{column.values[at]:g}" if at < len(column.values) else ""
        row = ours.get((column.engine, column.phase, value))
        if row is None:
            text = ""
        elif row.valid and (figure := estimated(row, by)) is not None:
            text = f"{figure.median / NS[curves.unit]:.3g}"
        else:
            text = (row.why or units.UNKNOWN).split(":", 1)[0]
        return f"{theirs} {BETWEEN} {text}" if theirs or text else ""

    for phase in dict.fromkeys(row.phase for row in curves.rows):
        columns = [row for row in curves.rows if row.phase == phase]
        cells = [[cell(column, at, value) for column in columns] for at, value in enumerate(curves.at)]
        rows = [(units.number(value), *row) for value, row in zip(curves.at, cells, strict=True) if any(row)]
        heads = (curves.parameter, *(column.published_as for column in columns))
        yield Section(phase, heads=heads, rows=rows, left=(), keys=heads[:1])


def _style_section(experiment: Experiment, style: Style, run: Run) -> Section:
    """Returns this run's figures in the published style and in Dyno's. The published figures exist only as
    pictures."""
    names = [name for name in varying(run) if name != CLIENTS] + [CLIENTS]
    contenders = {each.engine: each for each in experiment.contenders}
    orders = {name: list(dict.fromkeys(cell.params[name] for cell in run.cells)) for name in names}
    phases, engines = list(run.plan["phases"]), list(contenders)

    def place(row: CellSummary) -> tuple[object, ...]:
        # In the plan's order: parameters first, then the phase, then clients.
        at = [orders[name].index(row.cell.params[name]) for name in names]
        return *at[:-1], phases.index(row.phase), at[-1], engines.index(row.cell.asked)

    mine = [row for row in summarize(run) if row.cell.asked in contenders and not row.cell.floor]
    mine.sort(key=place)
    figures = (f"best of {style.runs} means", "median", "[95 %]", "per second", "[95 %]")
    left = ("phase", "measured here", "published as", REMARKS)
    heads = ("phase", *names, *left[1:3], *figures, REMARKS)
    rows = list[list[str]]()
    previous = None
    for row in mine:
        part = row.phase, *(row.cell.params[name] for name in names[:-1])
        if previous not in (None, part):
            rows.append([""] * len(heads))
        previous = part
        values = (units.count(v) if isinstance(v, int) else str(v) for v in map(row.cell.params.get, names))
        contender = contenders[row.cell.asked]
        systems = contender.stand_in or contender.name, contender.published_as
        remarks = ", ".join(doubt.short for doubt in doubts(row, run))
        of_trials, rate = means(row), row.throughput
        if not of_trials or rate is None:
            texts = ["", (row.why or units.UNKNOWN).split(":", 1)[0], "", "", ""]
        else:
            texts = [units.duration(best_of_means(row, style.runs)), *units.estimate(estimate(of_trials), "ns")]
            texts += [units.rate(rate.median), units.interval(rate.low, rate.high)]
        rows.append([row.phase, *values, *systems, *texts, remarks])
    counts = [sample.operations // sample.clients for row in mine for sample in row.samples]
    each = f"; here each client did {units.count(min(counts))}" if counts else ""
    each += f" to {units.count(max(counts))}" if counts and max(counts) > min(counts) else ""
    legend = [
        f"best of {style.runs} means: the published style, the least of {style.runs} trials' mean durations of"
        f" {style.operations} operations{each}",
        "median, per second: Dyno's style, medians over all trials of the mean duration and of the rate",
    ]
    for engine, cell in {row.cell.asked: row.cell for row in mine}.items():
        legend.append(f"{contenders[engine].title}: {display.engine(engine, cell.tier)}")
    return Section("", "", heads, rows, left, ("phase", *names, *left[1:3]), rigid=left[:3], legend=legend)


def best_of_means(row: CellSummary, runs: int) -> float | None:
    """Returns the least mean of the first `runs` trials, in ns; None if there are fewer trials."""
    first = means(row)[:runs]
    return min(first) if len(first) == runs else None


def means(row: CellSummary) -> list[float]:
    """Returns each trial's mean duration of an operation over all clients, in ns and in the order of the blocks."""
    by_block = sorted(zip(row.blocks, row.samples, strict=True), key=lambda pair: pair[0])
    return [sample.busy_ns / sample.operations for _, sample in by_block if sample.operations and sample.busy_ns > 0]


def _render_findings(experiment: Experiment, run: Run, console: Console) -> None:
    results = findings.check(run, experiment.findings)
    names = {each.engine: each.title for each in experiment.contenders}
    console.print()
    counts = _counts([result.kind for result in results])
    console.print(Text(f"Published findings, and whether this run confirms them: {counts}", "bold"))
    for result in results:
        console.print()
        text = f"“{result.finding.says}”" if result.finding.says else result.finding.shows
        console.print(Text.assemble((f"{result.kind:<{INDENT}}", STYLES[result.kind]), text))
        for line in _notes(result, names):
            console.print(Padding(Text(line, "dim"), (0, 0, 0, INDENT), expand=False))
        if result.checks:
            _render_checks(result, run, names, console)
    console.print()
    console.print(Text(LEGEND, "dim"))


def _counts(kinds: list[str]) -> str:
    """Counts verdicts: '2 confirmed, 1 contradicted, 3 can't tell'."""
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in STYLES if kind in kinds)


def _notes(result: FindingResult, names: Mapping[str, str]) -> Iterator[str]:
    finding = result.finding
    if finding.unchecked:
        yield finding.unchecked
    if finding.read_as:
        yield f"read as: {finding.read_as}"
    for why in dict.fromkeys(check.claim.across_tiers for check in result.checks if check.across):
        yield f"compares rows of two tiers, which Dyno does nowhere else: {why}"
    for why in dict.fromkeys(check.claim.across_tools for check in result.checks if check.ratio is not None):
        if why:
            yield f"compares figures of two tools, which Dyno does nowhere else: {why}"
    if result.left_out:
        yield f"without {display.listed([names.get(name, name) for name in result.left_out])}: not run here"
    kinds = [check.kind for check in result.checks]
    if len(set(kinds)) > 1:
        yield f"of {len(kinds)} ratios: {_counts(kinds)}"


def _render_checks(result: FindingResult, run: Run, names: Mapping[str, str], console: Console) -> None:
    """Prints a line for each claim and place. Checks that differ only in the parameter with the most values share a
    line."""
    counts = {name: len({cell.params[name] for cell in run.cells}) for name in varying(run)}
    changing = sorted(counts, key=lambda name: counts[name])

    def key(check: Check) -> tuple[object, ...]:
        params = {} if check.cell is None else check.cell.params
        others = [repr(params.get(name)) for name in changing[:-1]]
        outcome = check.kind, check.why or "", _tiers(check)
        return result.finding.claims.index(check.claim), check.phase, check.other, *others, *outcome

    rows = []
    for _, group in groupby(sorted(result.checks, key=key), key):
        checks = list(group)
        first = checks[0]
        params = {
            name: tuple(dict.fromkeys(check.cell.params[name] for check in checks if check.cell is not None))
            for name in changing
            if first.cell is not None and name not in first.claim.of_params
        }
        texts = units.params(params), first.kind, _figures(checks), _tiers(first)
        rows.append((first.phase, _claim(first, names), *texts))
    # The columns: phase, claim, parameters, verdict, figures, tiers.
    columns = [Column("", left=True, folds=True, key=at < 2) for at in range(6)]
    marks = STYLES | {_tiers(check): "yellow" if check.across else "dim" for check in result.checks}
    print_table(columns, rows, console, marks=marks, indent=INDENT)


def _tiers(check: Check) -> str:
    """Returns 'tier power' or 'tier volatile against tier power'; empty if a reason is printed instead of a ratio."""
    if check.ratio is None:
        return ""
    tiers = [display.tier(tier) or "no tier" for tier in check.tiers if any(check.tiers)]
    return " against ".join(dict.fromkeys(tiers))


def _claim(check: Check, names: Mapping[str, str]) -> str:
    """Returns a claim in words: 'MySQL faster than ZEO, by a factor of at least 2'."""
    claim = check.claim

    def side(engine: str, params: Mapping[str, object]) -> str:
        name = names.get(engine, engine)
        return f"{name} with {units.params(params)}" if params else name

    one = side(claim.of, claim.of_params)
    if claim.relation == FAILS:
        return f"{one}: at least {claim.low * 100:g} % of trials crash"
    than = check.other or (claim.than[0] if len(claim.than) == 1 else "")
    other = side(than, claim.than_params) if than else "the others"
    fact = f"{claim.metric} of " if claim.fact else ""
    other_fact = f"{claim.than_fact} of " if claim.than_fact else ""
    where = f" in {claim.than_phase}" if claim.than_phase else ""
    if claim.relation == ABOUT:
        relation, bounds = f"{units.ratio(claim.low)} to {units.ratio(claim.high)} times that of", []
    else:
        more, less = ("more than", "less than") if claim.fact else ("faster than", "slower than")
        relation, least, most = more, claim.low, claim.high
        if claim.relation in LESS:
            relation, least, most = less, 1 / claim.high, 1 / claim.low if claim.low else math.inf
        bounds = [f"at least {least:g}"] if least > 1 else []
        bounds += [f"at most {most:g}"] if most != math.inf else []
    bound = f", by a factor of {' and '.join(bounds)}" if bounds else ""
    return f"{fact}{one} {relation} {other_fact}{other}{where}{bound}"


def _figures(checks: list[Check]) -> str:
    first = checks[0]
    if first.why is not None:
        return first.why
    if first.failed is not None:
        return f"{units.count(first.failed)} of {units.count(first.attempts)} trials"
    low = min(check.low for check in checks if check.low is not None)
    high = max(check.high for check in checks if check.high is not None)
    interval = units.ratio_interval(low, high)
    return f"{units.ratio(first.ratio, high - low)} [{interval}]" if len(checks) == 1 else interval
