"""The answers of engines to the same operations, side by side: what `dyno run --try` prints."""

import json
from collections.abc import Iterator, Mapping

from dyno.report.tables import display
from dyno.report.tables.sections import Section
from dyno.results import Run
from dyno.stats.agreement import judged_attempts

SHOWN = "answers_shown"
"""Fact of a sample: a JSON list of operations, each with its answer as text."""
FEW = 3
"""Operations on which all engines agree that are shown of each phase; those on which they don't are all shown."""
NOT_EXECUTED = "not executed"


def sections(run: Run) -> Iterator[Section]:
    """Yields a section for each phase: a row for each operation and engine."""
    for phase in run.phases:
        by_engine: dict[str, dict[str, str]] = {}
        failures = []
        for attempt in {(each.cell, each.block): each for each in judged_attempts(run)}.values():
            cell = run.cells[attempt.cell]
            for sample in attempt.samples:
                if sample.phase == phase and not cell.floor:
                    by_engine[cell.label] = dict(json.loads(str(sample.facts.get(SHOWN, "[]"))))
                    if sample.errors:
                        failures.append(f"{cell.label}: {sample.errors} failed; the first: {sample.first_error}")
                    if sample.void:
                        failures.append(f"{cell.label}: {sample.void}")
            if attempt.outcome != "ok" and not attempt.samples:
                failures.append(f"{cell.label}: {attempt.outcome}: {attempt.why}")
        remark, rows = _side_by_side(by_engine)
        yield Section(
            display.join_parts(phase),
            remark,
            ("operation", "engine", "answer"),
            rows,
            left=("operation", "engine", "answer"),
            lines=list(dict.fromkeys(failures)),
        )


def _side_by_side(by_engine: Mapping[str, Mapping[str, str]]) -> tuple[str, list[tuple[str, str, str]]]:
    """Returns the number of operations, of those that all engines executed and of equal answers, as a sentence; and a
    row for each operation and engine. `by_engine`: answers by operation, of each engine."""
    rows = list[tuple[str, str, str]]()
    whole = 0
    agreed = 0
    shown = 0
    # An engine whose time was up has fewer operations than the others.
    operations = dict.fromkeys(operation for answers in by_engine.values() for operation in answers)
    for operation in operations:
        answers = {engine: executed.get(operation, NOT_EXECUTED) for engine, executed in by_engine.items()}
        by_all = NOT_EXECUTED not in answers.values()
        same = len({*answers.values()} - {NOT_EXECUTED}) == 1
        whole += by_all
        agreed += same and by_all
        shown += same
        if not same or shown <= FEW:
            rows += [(operation if not at else "", *of_engine) for at, of_engine in enumerate(answers.items())]
    if whole == len(operations):
        return f"{whole} operations, {agreed} with the same answer of all", rows
    counts = ", ".join(f"{engine} {len(executed)}" for engine, executed in by_engine.items())
    return f"{whole} of {len(operations)} operations executed by all ({counts}), {agreed} with the same answer", rows
