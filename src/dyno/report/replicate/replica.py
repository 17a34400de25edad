"""A published experiment's figures next to this run's. No ratio of the two is shown, because they come from different
machines. The findings are checked against this run alone."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import mean, stdev

from dyno.options import as_list
from dyno.published import Curves, Experiment, Matrix, PublishedCurve, Style
from dyno.published import experiment as read_experiment
from dyno.published import names as experiment_names
from dyno.report.replicate import gaps, orders, rates, verdicts
from dyno.report.replicate.gaps import BETWEEN
from dyno.report.tables import display, notes, sweeps, units, wide
from dyno.report.tables.sections import REMARKS, Section
from dyno.report.tables.table import groups, varying_params
from dyno.results import Run
from dyno.stats.curves import FEWEST_VALUES
from dyno.stats.doubts import doubts
from dyno.stats.estimate import estimate
from dyno.stats.growth import Growth, growths
from dyno.stats.metric import estimate_metric, metric
from dyno.stats.summary import CellSummary, summarize

CLIENTS = "clients"
MEANS = (
    "mean: the published style, of all trials, with their standard deviation in percent; right of it ours, the median"
    " over all trials, with its interval"
)
SHOWN = 12
"""Number of printed digits of a checksum."""
NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Units of published times. This run's times are printed in the same unit."""


def sections(experiment: Experiment, run: Run) -> Iterator[Section]:
    """Yields the published order and figures next to this run's (medians over trials), then the findings."""
    yield Section(experiment.citation, lines=describe_replica(experiment, run))
    yield orders.section(experiment, run)
    yield from _tables(experiment, run)
    missing = run.header.missing or {}
    absent = [each for each in experiment.contenders if each.engine in missing]
    lines = [f"{each.published_as}: not run here: {each.engine} {missing[each.engine]}" for each in absent]
    lines += [*(f"left out: {why}" for why in run.header.left_out or ()), *experiment.notes]
    if lines:
        yield Section("Notes", lines=lines)
    if experiment.findings:
        yield from verdicts.sections(experiment, run)


def describe_replica(experiment: Experiment, run: Run) -> list[str]:
    """Returns the published machine, and the size, machine and versions of this run."""
    preset = size(experiment, run) or run.header.preset or units.UNKNOWN
    how = [f"preset {preset}", notes.trials(run), notes.length(run)]
    sums = ", ".join(f"{name} {digest[:SHOWN]}" for name, digest in experiment.sha256.items())
    return [
        f"published on: {experiment.machine}",
        *([f"SHA-256 of the copied figures: {sums}; it shows only that nobody changed the copy"] if sums else []),
        f"measured here: {'; '.join(how)}",
        *([] if run.complete else [f"not complete: {notes.describe_progress(run)}"]),
        f"on: {notes.machine(run)}",
        f"versions: {notes.versions(run)}",
    ]


def size(experiment: Experiment, run: Run) -> str | None:
    """Returns the preset of the experiment with whose parameters the run was made; None for the published size."""
    preset_name = run.header.preset
    if preset_name != experiment.plan.get("preset"):
        return preset_name
    for preset in experiment.sizes:
        plan = experiment.plan_at_preset(preset)
        params = {name: set(map(str, as_list(value))) for name, value in plan.get("param", {}).items()}
        if plan["preset"] == preset_name and all(
            values == {str(cell.params.get(name)) for cell in run.cells} for name, values in params.items()
        ):
            return preset
    return None


def original(run: Run) -> Experiment | None:
    """Returns the experiment that the run repeats, for the run's machine; None for other runs."""
    name = run.header.experiment
    if name is None or name not in experiment_names():
        return None
    return read_experiment(name, run.header.host.cpu.available_cores)


def _tables(experiment: Experiment, run: Run) -> Iterator[Section]:
    """Yields the published tables, each next to this run's figures, and explains the remarks."""
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
        fits = growths(run, parameter)
        why = f"a fit takes {FEWEST_VALUES} values of {parameter}"
        if any(growth.fit for growth in fits):
            why = "nothing is forecast, for the reasons above"
        for section in sweeps.growth_sections(fits, parameter, experiment.grows.names):
            yield gaps.state_gaps(section, lambda head: why, section.heads[1:])
    layout = run.header.layout if experiment.lines else None
    if lines := [*notes.legend(groups(run), used=False), *(layout.legend if layout else ())]:
        yield Section("Remarks", lines=lines)


def _rows_section(experiment: Experiment, run: Run) -> Section:
    if experiment.grows:
        parameter = experiment.grows.parameter
    else:
        parameter = ""
    ours = {(row.cell.asked, row.phase, row.cell.params.get(parameter)): row for row in summarize(run)}
    if parameter:
        curves = {(each.cell.asked, each.phase): each for each in growths(run, parameter)}
    else:
        curves = {}
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
        published = [row.published_as, row.phase, row.items, row.time, row.per_second]
        if summary is not None:
            remarks = ", ".join(doubt.short for doubt in doubts(summary, run))
            rows.append([*published, *_measured_cells(summary), remarks])
        elif row.at is not None and curve is not None:
            rows.append([*published, *_extrapolate_cells(row.at, curve)])
        else:
            rows.append([*published, f"{BETWEEN} {row.engine}: not measured", *[""] * 6])
    deviations = any("±" in row.time for row in experiment.rows)
    # Our means are left out if no means were published.
    columns = [each for each in zip(heads, *rows, strict=True) if deviations or each[0] != "mean"]
    heads, *rows = map(list, zip(*columns, strict=True))
    left = ("published", "mode", f"{BETWEEN} ours", REMARKS)
    keys = ("published", "mode")
    legend = [MEANS] * deviations
    section = Section("", "", heads, rows, left, keys, rigid=("mode",), legend=legend)
    section = gaps.state_gaps(section, gaps.reasons(run, [row.phase for row in experiment.rows]))
    shown = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    return replace(section, heads=[heads[at] for at in shown], rows=[[row[at] for at in shown] for row in rows])


def _extrapolate_cells(at: float, curve: Growth) -> list[str]:
    """Returns this run's cells of a row that is extrapolated to the size `at`. The rate is left out if the number of
    items is not proportional to the size."""
    name = f"{BETWEEN} {display.join_parts(curve.cell.asked, curve.cell.tier_name or '')}"
    predicted, why = curve.predict(at), curve.refusal(at)
    if predicted is None or why is not None:
        return [name, *[""] * 5, f"not extrapolated: {why}"]
    items, remark = curve.items_at(at), "extrapolated, not measured"
    time = units.long_duration(predicted.middle)
    if items is None:
        return [name, "", "", time, "", "", remark]
    rate, low, high = (items / ns * 1e9 for ns in (predicted.middle, predicted.high, predicted.low))
    return [name, units.count(round(items)), "", time, units.rate(rate), units.interval(low, high), remark]


def _measured_cells(summary: CellSummary) -> list[str]:
    name = f"{BETWEEN} {display.join_parts(summary.cell.asked, summary.cell.tier_name or '')}"
    rate, times = summary.throughput, [sample.elapsed_ns for sample in summary.samples if sample.elapsed_ns > 0]
    if rate is None:
        return [name, "", "", "", (summary.why or "").split(":", 1)[0], ""]
    trial_mean = units.UNKNOWN
    if times:
        # The standard deviation is over n - 1; a single trial has none.
        if len(times) > 1:
            deviation = f" ± {stdev(times) / mean(times) * 100:.2f} %"
        else:
            deviation = ""
        trial_mean = units.long_duration(mean(times)) + deviation
    time, per_second = units.duration(summary.elapsed_ns), units.rate(rate.median)
    return [name, units.count(summary.items), trial_mean, time, per_second, units.interval(rate.low, rate.high)]


def _wide_section(experiment: Experiment, run: Run) -> Section:
    ours = [(own, line) for own in wide.tables(run, groups(run)) for line in own.lines]
    names = list(experiment.lines[0].params)
    figures = list(dict.fromkeys(head for line in experiment.lines for head in line.figures))
    rows = list[list[str]]()
    for published in experiment.lines:
        row = [*map(str, published.params.values()), *(published.figures.get(head, "") for head in figures), BETWEEN]
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
    section = Section("", remark, heads, rows, [*names, REMARKS], names, rigid=names)
    return gaps.state_gaps(section, gaps.reasons(run, wide.phases(run)))


def _matrix_sections(matrix: Matrix, run: Run) -> Iterator[Section]:
    """Yields the published table as printed, and below it the same figure of this run."""
    title, heads = f"{matrix.title}, {matrix.unit}, published", ("", *matrix.heads)
    yield Section(title, "", heads, matrix.lines, left=("",), keys=("",), rigid=("",))
    rows = []
    for row in summarize(run):
        if row.phase == matrix.phase and row.valid and not row.cell.floor:
            times = row.latency_by_part_ns.get(matrix.part) or {}
            params = units.params({name: row.cell.params[name] for name in varying_params(run)})
            rows.append((row.cell.asked, params, *(units.duration(times.get(name)) for name in ("p50", "p99"))))
    keys = ("engine", "parameters")
    title, why = f"{matrix.title}, here: {matrix.part} of {matrix.phase}", gaps.reasons(run, [matrix.phase])
    section = Section(title, heads=(*keys, "p50", "p99"), rows=rows, left=keys, keys=keys, rigid=keys)
    lines = [] if rows else [f"no figure: {why('')}"]
    yield gaps.state_gaps(replace(section, lines=lines), why, ("p50", "p99"))


def _parts_sections(experiment: Experiment, run: Run) -> Iterator[Section]:
    for phase, published in experiment.parts.items():
        ours = [row for row in summarize(run) if not row.cell.floor and row.valid and row.phase == phase]
        rows = list[tuple[str, ...]]()
        for part, seconds in published.items():
            medians = ((row.latency_by_part_ns.get(part) or {}).get("p50") for row in ours)
            rows.append((part, f"{seconds:.6f} s", *map(units.duration, medians)))
        whole = f"{sum(published.values()):.6f} s", *(units.duration(row.latency_ns["p50"]) for row in ours)
        rows.append(("all", *whole))
        names = (f"{row.cell.asked} {units.params(row.cell.params, varying_params(run))}".rstrip() for row in ours)
        heads = (phase, "published", *(f"{BETWEEN} {name}, p50" for name in names))
        section = Section("", heads=heads, rows=rows, left=(phase,), keys=(phase,), rigid=(phase,))
        why = gaps.reasons(run, [phase])
        lines = [] if ours else [f"no figure: {why('')}"]
        yield gaps.state_gaps(replace(section, lines=lines), why)


def _curve_sections(curves: Curves, run: Run) -> Iterator[Section]:
    """Yields a table for each phase. Each cell has the published figure and this run's. Rows that have neither are
    left out."""
    by = metric(curves.metric)
    ours = {(row.cell.asked, row.phase, row.cell.params.get(curves.parameter)): row for row in summarize(run)}
    yield Section("", f"published {BETWEEN} ours, {by.title}, in {curves.unit}")

    def cell(column: PublishedCurve, at: int, value: float) -> str:
        if at < len(column.values):
            theirs = f"{column.values[at]:.3f}"
        else:
            theirs = ""
        row = ours.get((column.engine, column.phase, value))
        if row is None:
            text = ""
        elif row.valid and (figure := estimate_metric(row, by)) is not None:
            text = f"{figure.median / NS[curves.unit]:.3g}"
        else:
            text = (row.why or units.UNKNOWN).split(":", 1)[0]
        if theirs or text:
            return f"{theirs} {BETWEEN} {text}"
        return ""

    for phase in dict.fromkeys(row.phase for row in curves.rows):
        columns = [row for row in curves.rows if row.phase == phase]
        cells = [[cell(column, at, value) for column in columns] for at, value in enumerate(curves.at)]
        rows = [(units.number(value), *row) for value, row in zip(curves.at, cells, strict=True) if any(row)]
        heads = (curves.parameter, *(column.published_as for column in columns))
        section = Section(phase, heads=heads, rows=rows, left=(), keys=heads[:1])
        whys = {column.published_as: gaps.reasons(run, [phase], column.engine) for column in columns}
        yield gaps.state_gaps(section, lambda head, whys=whys: whys[head](head))  # type: ignore[misc]


def _style_section(experiment: Experiment, style: Style, run: Run) -> Section:
    """Returns this run's figures in the published style and in Dyno's. The published figures exist only as
    pictures."""
    names = [name for name in varying_params(run) if name != CLIENTS] + [CLIENTS]
    contenders = {each.engine: each for each in experiment.contenders}
    orders = {name: list(dict.fromkeys(cell.params[name] for cell in run.cells)) for name in names}
    phases, engines = list(run.plan.phases), list(contenders)

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
    if counts:
        each = f"; here each client did {units.count(min(counts))}"
    else:
        each = ""
    each += f" to {units.count(max(counts))}" if counts and max(counts) > min(counts) else ""
    legend = [
        f"best of {style.runs} means: the published style, the least of {style.runs} trials' mean durations of"
        f" {style.operations} operations{each}",
        "median, per second: Dyno's style, medians over all trials of the mean duration and of the rate",
    ]
    for engine, cell in {row.cell.asked: row.cell for row in mine}.items():
        legend.append(f"{contenders[engine].title}: {display.engine(engine, cell.tier)}")
    section = Section("", "", heads, rows, left, ("phase", *names, *left[1:3]), rigid=left[:3], legend=legend)
    why = gaps.reasons(run, phases, otherwise=f"it takes {style.runs} trials of a row")
    return gaps.state_gaps(section, why, figures)


def best_of_means(row: CellSummary, runs: int) -> float | None:
    """Returns the least mean of the first `runs` trials, in ns; None if there are fewer trials."""
    first = means(row)[:runs]
    if len(first) == runs:
        return min(first)
    return None


def means(row: CellSummary) -> list[float]:
    """Returns each trial's mean duration of an operation over all clients, in ns and in the order of the blocks."""
    by_block = sorted(zip(row.blocks, row.samples, strict=True), key=lambda pair: pair[0])
    return [sample.busy_ns / sample.operations for _, sample in by_block if sample.operations and sample.busy_ns > 0]
