"""Comparisons within a run, of runs with a base and in a history of runs, as sections, as sentences, and as JSON.

docs/reference/compare-json.md documents every key of the JSON, which a test checks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median
from typing import Any

from msgspec import Struct, structs, to_builtins

from dyno.contracts.cell import Cell
from dyno.contracts.value_types import JsonObject
from dyno.report import compare_json
from dyno.report.show_json import CPU
from dyno.report.tables import display, notes, units, wording
from dyno.report.tables.sections import Section
from dyno.report.tables.table import bandwidth, costs, reported_by_text, varying_params
from dyno.report.tables.wording import LEVEL, level
from dyno.results import Run
from dyno.stats import two_runs
from dyno.stats.compare import Table, compare_with_baseline
from dyno.stats.history import CHANCE, SURE, Gap, SpeedChange
from dyno.stats.metric import BANDWIDTH, THROUGHPUT, Metric, speeds
from dyno.stats.summary import CellSummary, group_values, summarize
from dyno.stats.two_runs import Between, Change, Difference, GateResult, differences
from dyno.stats.verdict import CONFIDENCE, Verdict

SCHEMA = 1
STATES = {"slower": "FAIL", "fine": "pass", "unclear": "unclear"}
GATE_LEVEL = level(two_runs.GATE_CONFIDENCE)
FAMILY = "Of 100 rows that are equal in all {runs} runs, at most one is called different in any of them by chance."
DIFFERENCE_HEADS = ("where", "what", "before", "after")
NOT_LISTED = ("plan", "commit")
"""Places of differences that are not listed for a change in a history, whose titles have the commits."""
MOST_DIFFERENCES = 12
"""Maximum number of differences that are shown for a change in a history."""


# -- as sections --------------------------------------------------------------------------------------------


def compare_within(run: Run, of: Sequence[Table], baseline: str | None, margin: float) -> list[Section]:
    """Returns a section for each table that has the baseline. If `baseline` is None, returns a section for each
    table, which compares with its best row."""
    changing = varying_params(run)
    sections = []
    for table in of:
        comparisons = compare_with_baseline(table, baseline, margin)
        if not comparisons:
            continue
        several = len(table.tiers) > 1
        cells = [comparisons[0].baseline, *(c.engine for c in comparisons)]
        base, *engines = (_name(cell) if several else cell.label for cell in cells)
        if table.metric.needs:
            best = f"which needs the least {table.metric.needs}"
        else:
            best = "the fastest"
        remark = f"against {base}{'' if baseline else f', {best}'}"
        remark += by_metric(table.metric)
        remark += describe_left_out(table)
        if several:
            remark += f"; the tiers differ: {display.ACROSS}"
        params = units.params(table.params, changing)
        tiers, tool = display.tiers(table.tiers), reported_by_text(table.reported_by)
        title = display.join_parts(table.phase, tiers, params, tool, between="  ")
        rows = [
            (engine, *wording.ratio(c.verdict), str(c.verdict.blocks), wording.verdict(c.verdict, c.metric))
            for engine, c in zip(engines, comparisons, strict=True)
        ]
        sections.append(Section(title, remark, ("engine", "ratio", f"[{LEVEL}]", "samples", "verdict"), rows))
    return sections


def describe_left_out(table: Table, belongs: Callable[[Cell], bool] = lambda cell: True) -> str:
    """Returns which rows with a number the table lacks, of those that belong to it, and why."""
    reasons = (
        (table.limited, "whose limit was the load generator"),
        (table.suspicious, "with too many empty or equal answers"),
        (table.warm, "not proven to be cold"),
    )
    text = ""
    for cells, why in reasons:
        labels = [cell.label for cell in cells if belongs(cell)]
        if labels:
            text += f"; without {', '.join(labels)}, {why}"
    return text


def by_metric(metric: Metric) -> str:
    if metric is THROUGHPUT:
        return ""
    if not metric.inverse:
        return f", by {metric.title}"
    if metric.needs:
        better = f"less {metric.needs}"
    else:
        better = "a shorter time"
    return f", by the {metric.title}: a ratio over 1 is {better}"


def list_differences(of: Between) -> Section:
    """Returns the differences between two runs' plans, machines and engines."""
    old, new = (f"{run.path} ({_minute(run) or 'at an unknown time'})" for run in (of.before, of.after))
    return _differences(of.differences, f"from {old} to {new}{'' if of.differences else ': no recorded difference'}")


def _minute(run: Run) -> str:
    return (run.header.created or "")[:16].replace("T", " ")


def _commit(run: Run) -> str:
    if run.commit:
        return f"commit {run.commit}"
    return ""


def _differences(of: Sequence[Difference], remark: str) -> Section:
    def text(value: object) -> str:
        if value is None:
            return units.UNKNOWN
        if isinstance(value, (list, tuple)):
            return ", ".join(map(str, value))
        return str(units.yes_no(value))

    rows = [(d.where, d.what, text(d.before), text(d.after)) for d in of]
    return Section("What differs", remark, DIFFERENCE_HEADS, rows, left=DIFFERENCE_HEADS, keys=DIFFERENCE_HEADS[:2])


def compare_runs(of: Sequence[Between], changing: Sequence[str]) -> list[Section]:
    """Returns a section for each phase and tier with a row in both runs. Of several comparisons with one base, each
    line also has its run."""
    order = {id(row): at for at, row in enumerate(summarize(of[0].before))}
    lines = [((str(pair.after.path),) if len(of) > 1 else (), change) for pair in of for change in pair.changes]
    lines.sort(key=lambda line: order[id(line[1].before)])
    rows = [(run, change, [wording.verdict(change.verdict, change.metric)]) for run, change in lines]
    return _by_phase(rows, ["verdict"], changing, level(of[0].confidence))


def list_gate_results(of: Sequence[GateResult], changing: Sequence[str]) -> list[Section]:
    """Returns sections like `compare_runs`, but for a gate, with the state of each row."""
    rows = [
        (
            (),
            replace(result.change, verdict=result.verdict),
            [wording.format_gate_verdict(result.verdict, result.change.metric), STATES[result.state]],
        )
        for result in of
    ]
    return _by_phase(rows, ["verdict", ""], changing, GATE_LEVEL)


def _by_phase(
    rows: Sequence[tuple[Sequence[str], Change, list[str]]], last: Sequence[str], changing: Sequence[str], level: str
) -> list[Section]:
    """Returns a section for each phase, tier, tool and metric. `rows`: changes, each with its run, if there are
    several, and the cells of the columns `last`."""

    def place(change: Change) -> tuple[str, str | None, str | None, Metric]:
        return change.after.phase, change.after.cell.tier_name, change.after.reported_by, change.metric

    apart = any(row.server is not None for _, change, _ in rows for row in (change.before, change.after))
    sections = []
    for (phase, tier, tool, metric), group in group_values((place(row[1]), row) for row in rows).items():
        changes = [change for _, change, _ in group]
        more = {} if metric.inverse else _usage_columns(changes, metric, apart)
        lines = []
        for at, (run, change, texts) in enumerate(group):
            cell = change.after.cell
            tiers = [row.cell.tier_name or "" for row in (change.before, change.after)]
            moved = ""
            if tiers[0] != tiers[1]:
                moved = f" ({' → '.join(tiers)})"
            params = [units.params(cell.params, changing)] if changing else []
            medians = [_median(row, metric) for row in (change.before, change.after)]
            usage = [column[at] for column in more.values()]
            names = [f"{cell.label}{moved}", *params, *run]
            lines.append([*names, *medians, *usage, *wording.ratio(change.verdict), *texts])
        title = display.join_parts(phase, display.tier(tier), reported_by_text(tool), between="  ")
        keys = ["engine", *(["parameters"] if changing else []), *(["run"] if group[0][0] else [])]
        heads = [*keys, "before", "after", *more, "ratio", f"[{level}]", *last]
        remark = by_metric(metric).removeprefix(", ")
        sections.append(Section(title, remark, heads, lines, left=(*keys, "verdict", ""), keys=keys))
    return sections


def _usage_columns(changes: Sequence[Change], metric: Metric, apart: bool) -> Mapping[str, Sequence[str]]:
    """Returns columns of bandwidth and CPU time per item, before and after. Empty columns are left out."""
    columns = {"bandwidth": [(bandwidth(c.before), bandwidth(c.after)) for c in changes if metric is not BANDWIDTH]}
    cpu = [(costs(change.before, apart), costs(change.after, apart)) for change in changes]
    for name in cpu[0][0]:
        columns[name if name == "cpu" else f"{name} cpu"] = [(before[name], after[name]) for before, after in cpu]
    return {
        name: [f"{old or units.UNKNOWN} → {new or units.UNKNOWN}" if old or new else "" for old, new in pairs]
        for name, pairs in columns.items()
        if any(any(pair) for pair in pairs)
    }


def _median(row: CellSummary, metric: Metric) -> str:
    """Returns the median over trials by which the ratio is computed."""
    middle = median(speeds(row, metric).values())
    text = units.WRITERS[metric.kind](1 / middle if metric.inverse else middle)
    if metric.kind == "items":
        return f"{text} {row.unit}/s"
    return text


def history(of: Sequence[SpeedChange]) -> list[Section]:
    """Returns a section for each run at which a row's speed changed, each followed by the other differences."""
    sections = []
    for _, group in groupby(of, key=lambda step: str(step.at.path)):
        steps = list(group)
        at = steps[0].at
        title = display.join_parts(f"{at.path}  {_minute(at)}".strip(), _commit(at))
        befores = {str(step.before.path): step.before for step in steps}.values()
        dates = [_name_with_date(run) for run in befores if run.commit]
        if dates:
            remark = f"changed here; the last before: {display.join_names(dates)}"
        else:
            remark = "changed here"
        heads = ("row", "after, up to", "before", "after", "ratio", f"[{LEVEL}]", "verdict")
        rows = []
        for step in steps:
            if step.metric is THROUGHPUT:
                by = ""
            else:
                by = step.metric.title
            name = display.join_parts(step.row.phase, _name(step.row.cell), units.params(step.row.cell.params), by)
            runs = [f"{n} runs" for n in step.runs]
            place = f"{_name_with_date(step.since)}, {_name_with_date(step.until)}"
            rows.append(
                (name, place, *runs, *wording.ratio(step.verdict), wording.verdict(step.verdict, step.metric))
            )
        sections.append(Section(title, remark, heads, rows, left=heads[:2] + heads[-1:], keys=("row",)))
        for before in befores:
            if other := [d for d in differences(before, at) if d.where not in NOT_LISTED][:MOST_DIFFERENCES]:
                sections.append(_differences(other, f"from {before.path}"))
    return sections


def _name_with_date(run: Run) -> str:
    """Returns the run's file, with its time and commit if the commit is known."""
    if run.commit:
        return f"{run.path} ({display.join_parts(_minute(run), _commit(run))})"
    return str(run.path)


# -- as sentences -------------------------------------------------------------------------------------------


def explain_ratios(of: Sequence[Between], by: Metric | None = None) -> list[str]:
    """Returns sentences on how the ratios of runs to their base were measured. `by`: the requested metric."""
    at = level(of[0].confidence)
    texts = group_values((wording.explain_ratios(pair.paired, at, by), str(pair.after.path)) for pair in of)
    if len(texts) > 1:
        several = [f"{display.join_names(runs)}: {text}" for text, runs in texts.items()]
    else:
        several = list(texts)
    return [*several, *([FAMILY.format(runs=len(of) + 1)] if len(of) > 1 else [])]


def conditions(run: Run) -> list[str]:
    """Returns conditions that hold for every figure. If two runs are compared, the conditions hold for both."""
    if run.plan.awake:
        return [f"Measured with the {notes.AWAKE}."]
    return []


def equal(margin: float) -> str:
    return f"Rows are called equal if a difference over {margin * 100:g} % can be ruled out."


def at_margin(of: Sequence[GateResult], margin: float) -> list[str]:
    """Returns a sentence on the ratio that decides whether a row of a gate passes; none without a row."""
    ratios = dict.fromkeys(f"{result.least:.2f}" for result in of)
    if not ratios:
        return []
    return [
        f"The margin of {margin * 100:g} % is a ratio of {' or '.join(ratios)}: a row passes if its interval begins"
        " above it, fails if it is shown to be below, and is unclear if neither."
    ]


def explain_same_cpu_time(of: Sequence[GateResult]) -> list[str]:
    """Returns a sentence on the rows that the clock alone calls slower; none without such a row."""
    rows = [f"{_name(each.change.after.cell)} in {each.change.after.phase}" for each in of if each.same_cpu_time]
    if not rows:
        return []
    return [
        f"{display.join_names(rows)}: slower by the clock, but each item takes the same CPU time: the machine may"
        " have been slower. Measure in turns, each side with its own dyno."
    ]


def list_lost_rows(of: Sequence[Between]) -> list[str]:
    """Returns a line for each row that has a number in only one of two runs, or is not compared, and for code that
    both runs share."""
    lines = []
    for pair in of:
        lost = [f"{_name(row.cell)}, {row.phase}: only before; after: {why}" for row, why in pair.lost]
        lost += [f"{_name(row.cell)}, {row.phase}: only after" for row in pair.new]
        lost += [
            f"{_name(row.cell)}, {row.phase}: {wording.not_compared(row.limit)}"
            for row in pair.limited
            if row.limit is not None
        ]
        lost += [f"{_name(row.cell)}, {row.phase}: no number to compare: {why}" for row, why in pair.without]
        if pair.shared:
            lost.append(f"Both sides ran {display.join_names(pair.shared)}, though their environments differ.")
        lines += [f"{pair.after.path}: {line}" for line in lost] if len(of) > 1 else lost
    return lines


def _name(cell: Cell) -> str:
    return display.engine(cell.label, cell.tier)


def summary(states: list[str], lost: int, margin: float, strict: bool, by: Metric | None = None) -> str:
    """Returns a sentence with the result of a gate. `by`: the requested metric."""
    worse = f"slower by more than {margin * 100:g} %"
    if by is not None and by.needs:
        worse = f"shown to need over {margin * 100:g} % more {by.needs}"
    parts = [f"{states.count('slower')} of {len(states)} rows {worse}"]
    if lost:
        parts.append(f"{lost} without a number now")
    if unclear := states.count("unclear"):
        if strict:
            effect = "which fails with --strict"
        else:
            effect = "which passes without --strict"
        parts.append(f"{unclear} unclear, {effect}: more --samples would tell")
    return "; ".join(parts) + "."


def history_lines(of: Sequence[SpeedChange], runs: int) -> list[str]:
    """Returns lines that explain the changes in a series of `runs` runs."""
    chance = f"Of {round(1 / CHANCE)} rows without a change, one is named by chance."
    none = [] if of else [f"No row changed in {runs} runs."]
    where = f"A change is after the one run and at or before the other in {SURE * 100:g} of 100 cases. " * bool(of)
    return [*none, f"Each run's median is one value; a change has three runs on each side. {where}{chance}"]


def history_gaps(of: Sequence[Gap], runs: int) -> list[str]:
    """Returns a line for each row that lacks a number in some of the `runs` runs."""
    lines = []
    for gap in of:
        by_why = group_values((why, str(run.path)) for run, why in gap.lacking)
        parts = [f"{display.join_names(paths)}: {why}" for why, paths in by_why.items()]
        name = display.join_parts(gap.row.phase, _name(gap.row.cell), units.params(gap.row.cell.params))
        lines.append(f"{name}: a number in {gap.runs} of {runs} runs; {'; '.join(parts)}")
    return lines


# -- as JSON ------------------------------------------------------------------------------------------------


def within_data(run: Run, of: Sequence[Table], baseline: str | None, margin: float) -> JsonObject:
    rows = [
        compare_json.WithinRow(
            **row_data(c.phase, c.engine),
            **verdict_data(c.verdict, c.metric, c.reported_by),
            baseline=c.baseline.asked,
            baseline_label=c.baseline.name,
            baseline_tier=c.baseline.tier_name,
        )
        for table in of
        for c in compare_with_baseline(table, baseline, margin)
    ]
    return _plain(compare_json.Within(SCHEMA, CONFIDENCE, margin, str(run.path), run.plan.awake, rows))


def with_base_data(of: Sequence[Between], margin: float) -> JsonObject:
    """Returns the JSON of comparisons with one base."""
    pairs = [_between(pair, margin) for pair in of]
    if len(pairs) == 1:
        return _plain(pairs[0])
    return _plain(compare_json.Several(SCHEMA, of[0].confidence, margin, str(of[0].before.path), pairs))


def gate_data(of: Between, margin: float, results: Sequence[GateResult], passed: bool) -> JsonObject:
    """Returns the JSON of a gate. `results`: one for each change."""
    between = structs.asdict(_between(of, margin))
    rows = []
    for row, result in zip(between["changes"], results, strict=True):
        text = wording.format_gate_verdict(result.verdict, result.change.metric)
        judged = {**structs.asdict(row), **structs.asdict(result.verdict), "text": text}
        rows.append(compare_json.GateRow(**judged, state=result.state))
    between["changes"] = rows
    if rows:
        between["confidence"] = two_runs.GATE_CONFIDENCE
    return _plain(compare_json.Gate(**between, passed=passed))


def _between(of: Between, margin: float) -> compare_json.Between:
    return compare_json.Between(
        schema=SCHEMA,
        confidence=of.confidence,
        margin=margin,
        before=str(of.before.path),
        after=str(of.after.path),
        awake=of.after.plan.awake,
        in_turns=of.paired,
        differences=list(of.differences),
        changes=list(map(_change_data, of.changes)),
        lost=[compare_json.RowWithReason(**row_data(row.phase, row.cell), why=why) for row, why in of.lost],
        new=[compare_json.OneSidedRow(**row_data(row.phase, row.cell)) for row in of.new],
        limited=[compare_json.OneSidedRow(**row_data(row.phase, row.cell)) for row in of.limited],
        without=[compare_json.RowWithReason(**row_data(row.phase, row.cell), why=why) for row, why in of.without],
    )


def _change_data(of: Change) -> compare_json.BetweenRow:
    sides = (of.before, of.after)
    peaks = (compare_json.Peak(side.client_peak_bytes, side.server_peak_bytes) for side in sides)
    return compare_json.BetweenRow(
        **row_data(of.after.phase, of.after.cell),
        **verdict_data(of.verdict, of.metric, of.after.reported_by),
        before=of.before.throughput,
        after=of.after.throughput,
        bandwidth=compare_json.Sides(*(side.bandwidth for side in sides)),
        cpu_ns_per_item=compare_json.Sides(*(CPU(side.client_cpu_ns, side.server_cpu_ns) for side in sides)),
        peak_bytes=compare_json.Sides(*peaks),
    )


def verdict_data(verdict: Verdict, metric: Metric, reported_by: str | None) -> dict[str, Any]:
    about = {"metric": metric.name, "reported_by": reported_by, "text": wording.verdict(verdict, metric)}
    return {**structs.asdict(verdict), **about}


def row_data(phase: str, cell: Cell) -> dict[str, Any]:
    """Returns the keys of a `compare_json.OneSidedRow`."""
    return {
        "phase": phase,
        "tier": cell.tier_name,
        "params": dict(cell.params),
        "engine": cell.asked,
        "label": cell.name,
    }


def _plain(data: Struct) -> JsonObject:
    plain: JsonObject = to_builtins(data)
    return plain
