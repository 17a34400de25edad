"""Tests the answers of engines side by side, as `dyno run --try` prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from madeup import a_cell, a_sample, an_attempt, of_rates

from dyno.report.tables.answers import SHOWN, sections
from dyno.report.tables.sections import Section


def section(by_engine: Mapping[str, Sequence[str]]) -> Section:
    """The section of a run whose engines gave these answers to the operations 1, 2, ..."""
    run = of_rates(*((a_cell(engine), {}) for engine in by_engine), phases=["read"])
    attempts = []
    for at, answers in enumerate(by_engine.values()):
        facts = {SHOWN: json.dumps([(f"operation {number}", answer) for number, answer in enumerate(answers, 1)])}
        attempts.append(an_attempt(0, a_sample(facts=facts), cell=at))
    (table,) = sections(replace(run, attempts=tuple(attempts)))
    return table


def test_unexecuted_operations_are_counted() -> None:
    table = section({"slow": ["1"], "fast": ["1", "2", "3", "4", "5"], "other": ["1", "2", "0", "4", "5"]})
    assert table.remark == "1 of 5 operations executed by all (slow 1, fast 5, other 5), 1 with the same answer"
    # Three operations with equal answers, and the one with different answers.
    assert [row[0] for row in table.rows if row[0]] == [f"operation {number}" for number in range(1, 5)]
    assert ("", "slow", "not executed") not in table.rows[:3] and (
        "operation 2",
        "slow",
        "not executed",
    ) in table.rows


def test_answers_of_all_engines_are_compared() -> None:
    table = section({"one": ["1", "2"], "other": ["1", "0"]})
    assert table.remark == "2 operations, 1 with the same answer of all"
