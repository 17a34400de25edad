"""The versions of engines as tables, as sentences and as JSON."""

import math
from collections.abc import Sequence
from itertools import pairwise

from msgspec import structs, to_builtins

from dyno.contracts.model import VERSION
from dyno.contracts.value_types import JsonObject
from dyno.report import compare_json
from dyno.report.tables import comparison, display, units, wording
from dyno.report.tables.sections import Section
from dyno.report.tables.table import figure, reported_by_text, varying_params
from dyno.results import Run
from dyno.stats.metric import Metric, estimate_metric
from dyno.stats.verdict import CONFIDENCE, Verdict
from dyno.stats.versions import ByVersion, ChangedAnswer, Step, VersionSeries, name_series, reach_of

HEADS = ("version", "figure", "ratio", f"[{wording.LEVEL}]", "samples", "verdict")
HOW = (
    "Ratios of {what}, block by block, with {level} intervals. They hold together: of 100 runs, at most one states by"
    " chance a change that isn't there. A change stayed so if no later one is shown."
)


# -- as sections --------------------------------------------------------------------------------------------


def list_sections(run: Run, of: ByVersion) -> list[Section]:
    """Returns the changed answers, and a table for each series."""
    changing = varying_params(run)
    news = [_describe_changed_answer(each, changing) for each in of.changed_answers]
    return [*news, *(_list_versions(series, changing) for series in of.series)]


def _describe_changed_answer(of: ChangedAnswer, changing: Sequence[str]) -> Section:
    place = display.join_parts(of.phase, units.params(of.params, changing))
    return Section(
        f"{of.name} {of.version} answers otherwise than {of.before}",
        display.join_parts(place, of.difference, between=": "),
    )


def _list_versions(of: VersionSeries, changing: Sequence[str]) -> Section:
    table = of.table
    title = display.join_parts(
        f"{of.name}  {table.phase}",
        display.tiers(table.tiers),
        units.params(table.params, changing),
        reported_by_text(table.reported_by),
        between="  ",
    )
    remark = f"against {of.versions[of.base]}"
    if of.base == 0:
        remark += ", the oldest"
    remark += comparison.by_metric(table.metric)
    remark += comparison.describe_left_out(
        table, lambda cell: VERSION in cell.options and name_series(cell) == of.name
    )
    rows = [
        (version, figure(row, table.metric), *_format_verdict(verdict, table.metric))
        for version, row, verdict in zip(of.versions, of.rows, of.verdicts, strict=True)
    ]
    return Section(title, remark, HEADS, rows, left=("version", "verdict"), keys=("version",))


def _format_verdict(verdict: Verdict | None, metric: Metric) -> tuple[str, ...]:
    if verdict is None:
        return "", "", "", ""
    return *wording.ratio(verdict), str(verdict.blocks), wording.verdict(verdict, metric)


# -- as sentences -------------------------------------------------------------------------------------------


def summarize_versions(run: Run, of: ByVersion) -> list[str]:
    """Returns a sentence for each series, and a line for each row that is in none."""
    changing = varying_params(run)
    lines = [describe_series(series, changing) for series in of.series]
    lines += [
        f"{display.engine(row.cell.label, row.cell.tier)}, {row.phase}: no number: {row.why}" for row in of.without
    ]
    return lines + [f"{cell.label} (installed) has no version in its name" for cell in of.unnamed]


def describe_series(of: VersionSeries, changing: Sequence[str]) -> str:
    """Returns 'lmdb (process), read: 1.4.0 is slower than 1.3.2 by at least 12 %, and it stayed so.'"""
    params = units.params(of.table.params, changing)
    name = display.join_parts(display.engine(of.name, of.table.tier), of.table.phase, params)
    return f"{name}: {describe_steps(of)}."


def describe_steps(of: VersionSeries) -> str:
    """Returns the changes of a series in words, or what can be said without one."""
    if not of.steps:
        return _describe_largest(of)
    text = describe_step(of, of.steps[0])
    for before, step in pairwise(of.steps):
        if step.verdict.kind != before.verdict.kind and step.last == step.first + 1:
            text += f", until {of.versions[step.last]}, which {_state(step.verdict, of.table.metric)}"
        else:
            text += f"; {describe_step(of, step)}"
    if of.steps[-1].last < len(of.versions) - 1:
        text += ", and it stayed so"
    return text


def _describe_largest(of: VersionSeries) -> str:
    span = f"from {of.versions[0]} to {of.versions[-1]}"
    if of.most.kind == "alike":
        return f"no change {span} larger than {units.percent(of.most.bound, math.ceil)}"
    if of.most.low is None:
        return f"no change {span} can be shown or ruled out: {wording.verdict(of.most, of.table.metric)}"
    reach = reach_of(of.most)
    if reach < 1:
        unknown = f"one of up to {units.percent(reach, math.ceil)} can't be ruled out"
    else:
        unknown = "not even one by a factor of two can be ruled out"
    return f"no change {span} is shown; {unknown} ({wording.needs(of.most)})"


def describe_step(of: VersionSeries, step: Step) -> str:
    """Returns '1.4.0 is slower than 1.3.2 by at least 12 %'. If it is unclear which version changed: 'between 1.2.0
    and 1.4.1 it becomes slower by at least 12 %, most probably with 1.4.0'."""
    metric = of.table.metric
    before, after = of.versions[step.first], of.versions[step.last]
    if step.last == step.first + 1:
        return f"{after} {_state(step.verdict, metric, than=before)}"
    changes = _state(step.verdict, metric, verb="becomes")
    return f"between {before} and {after} it {changes}, most probably with {of.versions[step.at]}"


def _state(verdict: Verdict, metric: Metric, than: str = "", verb: str = "is") -> str:
    """Returns 'is slower by at least 12 %', or with a version, 'is slower than 1.3.2 by at least 12 %'. Of a
    resource: 'needs at least 12 % less memory than 1.3.2'."""
    text, by, bound = wording.verdict(verdict, metric).partition(" by ")
    if not metric.needs:
        text = f"{verb} {text}"
    if than and " times as " in text:
        text += f" as {than}"
    elif than:
        text += f" than {than}"
    return f"{text}{by}{bound}"


def explain(by: Metric | None, margin: float) -> list[str]:
    """Returns how ratios of versions were measured. `by`: the requested metric."""
    if by is not None and by.needs:
        what = f"{by.needs}, the baseline's to the version's"
    else:
        what = "speed"
    return [f"{HOW.format(what=what, level=wording.LEVEL)} {comparison.equal(margin)}"]


# -- as JSON ------------------------------------------------------------------------------------------------


def versions_data(run: Run, of: ByVersion, margin: float) -> JsonObject:
    data = compare_json.ByVersion(
        schema=comparison.SCHEMA,
        confidence=CONFIDENCE,
        margin=margin,
        run=str(run.path),
        awake=run.plan.awake,
        changed_answers=[
            compare_json.VersionAnswers(
                each.name, each.phase, dict(each.params), each.before, each.version, each.difference
            )
            for each in of.changed_answers
        ],
        series=[_series_data(series, varying_params(run)) for series in of.series],
        without=[
            compare_json.RowWithReason(**comparison.row_data(row.phase, row.cell), why=row.why or "")
            for row in of.without
        ],
        unnamed=[cell.asked for cell in of.unnamed],
    )
    plain: JsonObject = to_builtins(data)
    return plain


def _series_data(of: VersionSeries, changing: Sequence[str]) -> compare_json.VersionSeries:
    table = of.table
    base = of.rows[of.base].cell
    rows = [
        compare_json.VersionRow(
            **comparison.row_data(table.phase, row.cell),
            **comparison.verdict_data(verdict, table.metric, table.reported_by),
            baseline=base.asked,
            baseline_label=base.name,
            baseline_tier=base.tier_name,
            version=version,
            baseline_version=of.versions[of.base],
        )
        for version, row, verdict in zip(of.versions, of.rows, of.verdicts, strict=True)
        if verdict is not None
    ]
    steps = [
        compare_json.VersionStep(
            **structs.asdict(step.verdict),
            text=describe_step(of, step),
            after=of.versions[step.first],
            until=of.versions[step.last],
            version=of.versions[step.at],
        )
        for step in of.steps
    ]
    return compare_json.VersionSeries(
        name=of.name,
        phase=table.phase,
        tier=base.tier_name,
        params=dict(base.params),
        metric=table.metric.name,
        reported_by=table.reported_by,
        versions=[
            compare_json.VersionFigure(version, row.cell.asked, estimate_metric(row, table.metric))
            for version, row in zip(of.versions, of.rows, strict=True)
        ],
        comparisons=rows,
        steps=steps,
        largest=compare_json.VerdictInWords(**structs.asdict(of.most), text=wording.verdict(of.most, table.metric)),
        text=describe_series(of, changing),
    )
