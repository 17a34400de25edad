"""Runs of the suite selftest whose trials are made up, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from madeup import a_sample, an_attempt

from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.model import Trial
from dyno.options import RunRequest
from dyno.results import Attempt, Run
from dyno.runner import parent, plan
from dyno.runner.parent import ProgressListener, StopRule
from dyno.stats.decisions import find_undecided_rows
from dyno.stats.summary import unsure_floors, widest


class Watching(ProgressListener):
    """Records progress events."""

    def __init__(self) -> None:
        self.added: list[tuple[int, str]] = []
        self.rows: list[Collection[int] | None] = []
        """The rows of each added block; None: all rows."""
        self.trials: list[int] = []

    def trial(self, cell: Any, trial: Any, attempt: int) -> None:
        self.trials.append(trial.block)

    def extended(self, blocks: int, why: str, cells: Collection[int] | None = None) -> None:
        self.added.append((blocks, why))
        self.rows.append(cells)


class MadeUpRuns:
    """Runs whose durations and rates the test sets by block."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch, engines: Sequence[str] = ("synthetic",)) -> None:
        self.home = home
        self.file = home / "r.json"
        self.now = 0.0
        self.engines = engines
        self.seconds: Callable[[int], float] = lambda block: 1.0
        self.rate: Callable[[int], float] = lambda block: 1_000.0
        self.floor_rate: Callable[[int], float] | None = None
        self.stop_at: tuple[int, int] | None = None
        patch.setattr(parent, "run_trial", self._trial)
        patch.setattr(parent, "time", SimpleNamespace(monotonic=lambda: self.now))

    def _trial(self, made: Any, cell: Cell, trial: Trial, number: int, *_: Any) -> Attempt:
        if (trial.block, trial.cell) == self.stop_at:
            raise KeyboardInterrupt
        self.now += self.seconds(trial.block)
        return an_attempt(trial.block, a_sample("work", self.rate_of(cell, trial)), cell=trial.cell, attempt=number)

    def rate_of(self, cell: Cell, trial: Trial) -> float:
        rate = self.floor_rate if cell.floor and self.floor_rate is not None else self.rate
        return rate(trial.block)

    def run(self, resume: bool = False, most: int | None = None, **asked: Any) -> tuple[Run, Watching]:
        run_plan, watching = plan.make(RunRequest("selftest", engines=self.engines, **asked)), Watching()
        rule = StopRule(widest, find_undecided_rows, unsure_floors)
        run = parent.execute(run_plan, self.file, self.home, watching, resume, False, rule, most)
        return run, watching

    def interrupted(self, block: int, cell: int = 0, **asked: Any) -> Run:
        """The run file after an interruption of the trial of a block and cell."""
        self.stop_at = block, cell
        with pytest.raises(KeyboardInterrupt):
            self.run(**asked)
        self.stop_at = None
        return results.load(self.file)
