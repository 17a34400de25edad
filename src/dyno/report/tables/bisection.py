"""The steps and the result of a bisection in words and as JSON."""

import math
from collections.abc import Sequence
from pathlib import Path

from msgspec import to_builtins

from dyno.contracts.value_types import JsonObject
from dyno.report import bisect_json
from dyno.report.tables import why as why_texts
from dyno.report.tables import wording
from dyno.report.tables.display import join_names
from dyno.results import Run
from dyno.stats.bisection import ALIKE, DIFFERENT, EARLIER, OPEN, Bisection, Difference, Step
from dyno.stats.metric import THROUGHPUT, Metric
from dyno.stats.verdict import Verdict as RatioVerdict
from dyno.stats.verdict import approximate_samples
from dyno.stats.why import explain_run

SCHEMA = 1
FOUND = "found"
BETWEEN = "between"
GRADUAL = "gradual"
"""Kinds of a result, besides `alike` and `open`."""


def describe_kind(of: Bisection) -> str:
    if of.kind == ALIKE and len(of.steps) > 1:
        return GRADUAL
    if of.kind != DIFFERENT:
        return of.kind
    if of.span.last - of.span.first > 1:
        return BETWEEN
    return FOUND


def describe_step(step: Step, margin: float, by: Metric = THROUGHPUT) -> str:
    """Returns a line on the verdict of a step."""
    verdict = step.verdict
    first, last = step.versions[0], step.versions[-1]
    blocks = f"{verdict.blocks} blocks"
    if len(step.versions) == 2:
        if verdict.kind == OPEN:
            return f"{first} and {last}: {_describe_open(step)}"
        return f"{last} against {first}: {_describe_change(verdict.difference, by, verdict.kind)} ({blocks})"
    middle = step.versions[1]
    if verdict.kind == OPEN:
        return f"{middle} between {first} and {last}: {_describe_open(step)}"
    if verdict.kind == ALIKE:
        return f"{middle}: the change from {first} to {last} has no single step above {_percent(margin)} ({blocks})"
    like, part = (last, (first, middle)) if verdict.kind == EARLIER else (first, (middle, last))
    if verdict.rest is None:
        return f"{middle} is like {like} ({blocks})"
    return f"{middle} differs from both: several changes; the larger part is from {part[0]} to {part[1]} ({blocks})"


def describe_result(of: Bisection, engine: str, by: Metric = THROUGHPUT) -> str:
    """Returns the result as a sentence."""
    kind = describe_kind(of)
    first, last = of.span.ends
    step = of.steps[-1]
    difference = step.verdict.difference
    if kind == FOUND:
        change = _describe_change(difference, by, DIFFERENT, f" than {first}")
        text = f"{engine} {last} is the first version with the change: {change}, {wording.SURE}"
    elif kind == BETWEEN:
        change = _describe_change(difference, by, DIFFERENT, f" than {first}")
        skipped = join_names(of.span.versions[of.span.first + 1 : of.span.last])
        text = f"The change of {engine} is after {first}, up to {last}, which is {change}, {wording.SURE}"
        text += f"; {skipped} can't be measured"
    elif kind == ALIKE:
        change = _describe_change(difference, by, ALIKE)
        text = f"{engine} {first} and {last}: {change}, {wording.SURE}; there is nothing to search for"
    elif kind == GRADUAL:
        text = f"The change of {engine} from {first} to {last} is gradual: no single step above {_percent(of.margin)}"
    elif len(of.steps) == 1:
        text = f"{engine} {first} and {last} can't be told apart in the time: {_describe_open(step)}"
    else:
        text = f"The change of {engine} is after {first}, up to {last}: {step.versions[1]} {_describe_open(step)}"
    if of.several and kind in (FOUND, BETWEEN):
        text += f"; it is the larger of several changes between {of.span.versions[0]} and {of.span.versions[-1]}"
    return text


def _describe_change(of: Difference | None, by: Metric, kind: str, than: str = "") -> str:
    """Returns 'slower by 9.1 % [8.2 – 10.0 %]', or 'no difference larger than 2.1 %'. `than`: ' than 1.7', or
    empty."""
    if of is None:
        return wording.UNCLEAR
    low, ratio, high = (math.exp(log) for log in (of.low, of.center.log, of.high))
    if kind == ALIKE:
        verdict = RatioVerdict(kind="alike", blocks=of.blocks, bound=max(high - 1, 1 / low - 1))
        return wording.verdict(verdict, by)
    faster, slower = "faster", "slower"
    if by.needs:
        faster, slower = f"needs less {by.needs}", f"needs more {by.needs}"
    if ratio > 1:
        return f"{faster}{than} by {_percent(ratio - 1)} [{_percent(low - 1)} – {_percent(high - 1)}]"
    return f"{slower}{than} by {_percent(1 - ratio)} [{_percent(1 - high)} – {_percent(1 - low)}]"


def _describe_open(step: Step) -> str:
    return f"{wording.UNCLEAR}, needs {approximate_samples(step.verdict.more)} more samples of each"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def explain_change(run: Run, rows: tuple[str, str]) -> list[str]:
    """Returns where the time of the change goes, in sentences. `rows`: the earlier and the later version's."""
    earlier, later = rows
    explanations = [
        each
        for table in explain_run(run, earlier)
        for each in table.explanations
        if (each.base.cell.row, each.row.cell.row) == (earlier, later)
    ]
    shown = [each for each in explanations if each.named or each.ruled_out] or explanations[:1]
    return [line for each in shown for line in why_texts.explain_in_phase(each)]


def bisection_data(
    of: Bisection,
    engine: str,
    by: Metric,
    runs: Sequence[tuple[Path, Run]],
    why: Sequence[str],
) -> JsonObject:
    """Returns the JSON of `dyno bisect --json`. `runs`: those of the steps."""
    kind = describe_kind(of)
    ends = of.span.ends
    difference = of.steps[-1].verdict.difference
    samples, seconds = count_samples([run for _, run in runs])
    data = bisect_json.Bisection(
        schema=SCHEMA,
        engine=engine,
        margin=of.margin,
        kind=kind,
        version=ends[1] if kind == FOUND else None,
        change=_change_data(ends, difference),
        several=of.several,
        versions=list(of.span.versions),
        left_out=of.left_out,
        steps=[_step_data(step, path, of.margin, by) for step, (path, _) in zip(of.steps, runs, strict=True)],
        samples=samples,
        seconds=seconds,
        why=list(why),
        text=describe_result(of, engine, by),
    )
    plain: JsonObject = to_builtins(data)
    return plain


def count_samples(runs: Sequence[Run]) -> tuple[int, float]:
    """Returns the number of trials of all runs, and their time in s."""
    trials = [attempt for run in runs for attempt in run.attempts]
    return len(trials), sum(attempt.duration_ns for attempt in trials) / 1e9


def _step_data(step: Step, path: Path, margin: float, by: Metric) -> bisect_json.BisectionStep:
    verdict = step.verdict
    part = rest = (step.versions[0], step.versions[-1])
    if len(step.versions) > 2:
        first, middle, last = step.versions
        part, rest = ((first, middle), (middle, last))
        if verdict.kind != EARLIER:
            part, rest = rest, part
    return bisect_json.BisectionStep(
        run=str(path),
        versions=list(step.versions),
        kind=verdict.kind,
        blocks=verdict.blocks,
        change=_change_data(part, verdict.difference),
        other=_change_data(rest, verdict.rest),
        more=verdict.more,
        text=describe_step(step, margin, by),
    )


def _change_data(versions: tuple[str, str], of: Difference | None) -> bisect_json.Change | None:
    if of is None:
        return None
    low, ratio, high = (math.exp(log) for log in (of.low, of.center.log, of.high))
    return bisect_json.Change(*versions, ratio, low, high)
