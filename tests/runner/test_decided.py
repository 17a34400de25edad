"""`dyno run --until decided` adds blocks until the stated comparisons are decided, without rows that are in no open
comparison. Trials are made up here, and a test moves the clock.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from madeup_runs import MadeUpRuns
from shell import Shell

from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.model import Trial
from dyno.results import Run
from dyno.stats.decisions import find_decisions

pytestmark = pytest.mark.usefixtures("processes")

NAMES = ("a", "b", "c")


class Laboratory(MadeUpRuns):
    """Runs of three labels of one engine, whose speeds and spread the test sets. A trial takes a second."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(home, patch, [f"{name}=synthetic" for name in NAMES])
        self.speeds = dict.fromkeys(NAMES, 1.0)
        self.spread = 0.02

    def rate_of(self, cell: Cell, trial: Trial) -> float:
        noise = random.Random(f"{trial.block} {trial.cell}").gauss(0, self.spread)
        return 1e6 * self.speeds.get(cell.row, 100.0) * math.exp(noise)


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
    assert all("comparisons open" in why for _, why in watching.added)
    assert set(watching.rows[-1] or ()) == {0, 1}


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
    assert not laboratory.interrupted(whole.blocks - 2, 1, until="decided", samples=6, within=600).complete
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
