"""`dyno run --until decided` adds blocks until the stated comparisons are decided, without rows that are in no open
comparison. Trials are made up here, and a test moves the clock.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from madeup import a_sample, an_attempt
from shell import Shell

from dyno import results
from dyno.options import RunRequest
from dyno.results import Attempt, Run
from dyno.runner import parent, plan
from dyno.runner.parent import ProgressListener, StopRule
from dyno.stats.decisions import find_decisions, find_undecided_rows
from dyno.stats.summary import unsure_floors, widest

pytestmark = pytest.mark.usefixtures("processes")

NAMES = ("a", "b", "c")


class Watching(ProgressListener):
    def __init__(self) -> None:
        self.added: list[tuple[int, str, Collection[int] | None]] = []

    def extended(self, blocks: int, why: str, cells: Collection[int] | None = None) -> None:
        self.added.append((blocks, why, cells))


class Laboratory:
    """Runs of three labels of one engine, whose speeds and spread the test sets. A trial takes a second."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.file = home / "r.json"
        self.now = 0.0
        self.speeds = dict.fromkeys(NAMES, 1.0)
        self.spread = 0.02
        self.stop_at: tuple[int, int] | None = None
        patch.setattr(parent, "run_trial", self._trial)
        patch.setattr(parent, "time", SimpleNamespace(monotonic=lambda: self.now))

    def _trial(self, run_plan: Any, cell: Any, trial: Any, number: int, *_: Any) -> Attempt:
        if (trial.block, trial.cell) == self.stop_at:
            raise KeyboardInterrupt
        self.now += 1
        noise = random.Random(f"{trial.block} {trial.cell}").gauss(0, self.spread)
        rate = 1e6 * self.speeds.get(cell.row, 100.0) * math.exp(noise)
        return an_attempt(trial.block, a_sample("work", rate), cell=trial.cell, attempt=number)

    def run(self, resume: bool = False, **options: Any) -> tuple[Run, Watching]:
        request = RunRequest("selftest", engines=[f"{name}=synthetic" for name in NAMES], **options)
        rule, watching = StopRule(widest, find_undecided_rows, unsure_floors), Watching()
        run = parent.execute(plan.make(request), self.file, self.home, watching, resume, False, rule)
        return run, watching


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    return Laboratory(tmp_path, monkeypatch)


def blocks(run: Run) -> dict[str, int]:
    """The number of trials of each row."""
    counts = Counter(run.cells[attempt.cell].row for attempt in run.attempts)
    return {name: counts[name] for name in NAMES}


@pytest.mark.claim("--until decided ends when each stated comparison is decided, and leaves out decided rows before")
def test_run_ends_when_all_is_decided(laboratory: Laboratory) -> None:
    laboratory.speeds = {"a": 3.0, "b": 2.0, "c": 1.0}
    run, _ = laboratory.run(until="decided", samples=4)
    assert (run.ending, run.complete, find_decisions(run).open) == ("decided", True, ())
    assert run.blocks < 12


@pytest.mark.claim("--until decided ends when each stated comparison is decided, and leaves out decided rows before")
def test_decided_rows_take_no_further_trial(laboratory: Laboratory) -> None:
    laboratory.speeds = {"a": 1.0, "b": 1.04, "c": 0.1}
    run, watching = laboratory.run(until="decided", samples=6, within=600)
    counts = blocks(run)
    assert counts["a"] == counts["b"] > counts["c"]
    assert run.complete
    assert run.progress[0] == run.progress[1]
    assert all("comparisons open" in why for _, why, _ in watching.added)
    assert set(watching.added[-1][2] or ()) == {0, 1}


def test_equal_rows_are_decided_by_the_margin(laboratory: Laboratory) -> None:
    laboratory.spread = 0.005
    run, _ = laboratory.run(until="decided", samples=4)
    assert run.ending == "decided"


def test_time_limit_ends_an_undecided_run(laboratory: Laboratory) -> None:
    laboratory.spread = 0.5
    run, _ = laboratory.run(until="decided", samples=3, within=19)
    assert (run.ending, run.complete) == ("time", True)
    assert laboratory.now <= 19


def test_hopeless_run_ends_before_the_time_is_up(laboratory: Laboratory) -> None:
    laboratory.spread = 0.3
    run, _ = laboratory.run(until="decided", samples=6, within=60)
    assert run.ending == "forecast"
    assert laboratory.now < 60
    assert find_decisions(run).most > 20


def test_interrupted_run_resumes_with_the_same_rows(laboratory: Laboratory) -> None:
    laboratory.speeds = {"a": 1.0, "b": 1.04, "c": 0.1}
    whole, _ = laboratory.run(until="decided", samples=6, within=600)
    laboratory.file.unlink()
    laboratory.stop_at = whole.blocks - 2, 1
    with pytest.raises(KeyboardInterrupt):
        laboratory.run(until="decided", samples=6, within=600)
    assert not results.load(laboratory.file).complete
    laboratory.stop_at = None
    run, _ = laboratory.run(resume=True, until="decided", samples=6, within=600)
    assert [(a.cell, a.block) for a in run.attempts] == [(a.cell, a.block) for a in whole.attempts]
    before = laboratory.file.read_bytes()
    laboratory.run(resume=True, until="decided", samples=6, within=600)
    assert laboratory.file.read_bytes() == before


def test_open_comparisons_are_named_when_the_time_is_up(shell: Shell) -> None:
    words = ("-e", "a=synthetic,b=synthetic", "-p", "operations=50", "--until", "decided", "--within", 1)
    ended = shell.dyno("run", "selftest", *words, "-o", shell.file)
    run = results.load(shell.file)
    assert ended.status == 0
    assert run.ending in ("time", "decided")
    assert run.complete
    named = re.search(r"The time was up: 1 of 1 comparisons open: [ab] and [ab] in work; .* more samples", ended.err)
    assert bool(named) == bool(find_decisions(run).open)
