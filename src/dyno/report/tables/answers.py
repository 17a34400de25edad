"""The answers of engines to the same operations, side by side: what `dyno run --try` prints."""

import json
from collections.abc import Iterator

from dyno.report.tables import display
from dyno.report.tables.sections import Section
from dyno.results import Run

SHOWN = "answers_shown"
"""Fact of a sample: a JSON list of operations, each with its answer as text."""
FEW = 3
"""Operations on which all engines agree that are shown of each phase; those on which they don't are all shown."""


def sections(run: Run) -> Iterator[Section]:
    """Yields a section for each phase: a row for each operation and engine."""
    for phase in run.phases:
        by_engine: dict[str, dict[str, str]] = {}
        failures = []
        for attempt in run.final():
            cell = run.cells[attempt.cell]
            for sample in attempt.samples:
                if sample.phase == phase and not cell.floor:
                    by_engine[cell.asked] = dict(json.loads(str(sample.facts.get(SHOWN, "[]"))))
                    if sample.errors:
                        failures.append(f"{cell.asked}: {sample.errors} failed; the first: {sample.first_error}")
                    if sample.void:
                        failures.append(f"{cell.asked}: {sample.void}")
            if attempt.outcome != "ok" and not attempt.samples:
                failures.append(f"{cell.asked}: {attempt.outcome}: {attempt.why}")
        rows, agreed = [], 0
        for operation in next(iter(by_engine.values()), {}):
            answers = {engine: found.get(operation, "not executed") for engine, found in by_engine.items()}
            same = len(set(answers.values())) == 1
            agreed += same
            if not same or agreed <= FEW:
                rows += [
                    (operation if number == 0 else "", engine, answer)
                    for number, (engine, answer) in enumerate(answers.items())
                ]
        count = len(next(iter(by_engine.values()), {}))
        yield Section(
            display.named(phase),
            f"{count} operations, {agreed} with the same answer of all",
            ("operation", "engine", "answer"),
            rows,
            left=("operation", "engine", "answer"),
            lines=list(dict.fromkeys(failures)),
        )
