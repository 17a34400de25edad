"""Progress of a run: a bar on standard error if that is a terminal."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dyno.cli import console
from dyno.contracts.cell import Cell
from dyno.contracts.model import Trial
from dyno.report.tables import display
from dyno.results import FLOOR_BLOCKS, Attempt, is_reference
from dyno.runner.parent import ProgressListener
from dyno.runner.plan import Plan
from dyno.stats.machine import machine_doubts


class Plain(ProgressListener):
    """Prints only what the user must know when the run has ended."""

    def leftover(self, why: str) -> None:
        console.print_note(why)


class Display(ProgressListener):
    """Shows a line with a bar, the current trial and phase, and the time left."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None, left="")
        self._description = ""
        self._ranked: list[int] = []
        self._trials_left = Counter[int]()
        """By cell, like the durations of trials in seconds."""
        self._seconds: dict[int, list[float]] = defaultdict(list)

    def begin(self, plan: Plan, done: Sequence[Attempt]) -> None:
        floors = min(plan.samples, FLOOR_BLOCKS)
        self._ranked = [at for at, cell in enumerate(plan.cells) if not is_reference(plan.cells, cell)]
        for at in range(len(plan.cells)):
            self._trials_left[at] = plan.samples if at in self._ranked else floors
        trials = {(attempt.cell, attempt.block): attempt for attempt in done}
        for attempt in trials.values():
            self._count(attempt)
        self._bar.update(self._task, total=self._trials_left.total() + len(trials), completed=len(trials))

    def machine(self, facts: Mapping[str, Any]) -> None:
        for finding in machine_doubts(facts):
            if finding.severity != "ok":
                self._bar.console.print(f"{finding.text}: {finding.remedy}", soft_wrap=True)

    def trial(self, cell: Cell, trial: Trial, attempt: int) -> None:
        if attempt == 0 and not self._trials_left[trial.cell]:
            # A null engine whose interval is still wide.
            self._extend([trial.cell])
        again = f", attempt {attempt + 1}" if attempt else ""
        row = display.engine(cell.label, None if cell.follows else cell.tier)
        self._description = f"{row}, block {trial.block + 1}{again}"
        self._show(self._description)

    def phase(self, name: str) -> None:
        self._show(f"{self._description}: {name}")

    def ended(self, cell: Cell, attempt: Attempt) -> None:
        if attempt.outcome != "ok":
            self._bar.console.print(f"{cell.asked}, block {attempt.block + 1}: {attempt.outcome}: {attempt.why}")
        if attempt.attempt == 0:
            self._count(attempt)
            self._bar.advance(self._task)

    def extended(self, blocks: int, why: str) -> None:
        self._extend(self._ranked)
        self._bar.console.print(f"block {blocks}: {why}")

    def leftover(self, why: str) -> None:
        self._bar.console.print(why, soft_wrap=True)

    def _count(self, attempt: Attempt) -> None:
        self._seconds[attempt.cell].append(attempt.duration_ns / 1e9)
        self._trials_left[attempt.cell] = max(self._trials_left[attempt.cell] - 1, 0)

    def _extend(self, cells: Sequence[int]) -> None:
        """Adds a trial to each of the cells."""
        self._trials_left.update(cells)
        self._bar.update(self._task, total=(self._bar.tasks[self._task].total or 0) + len(cells))

    def _show(self, description: str) -> None:
        """Shows the time left: the trials left of each cell, times the mean duration of its trials so far."""
        text, means = "", {cell: fmean(seconds) for cell, seconds in self._seconds.items()}
        if means:
            overall = fmean(means.values())
            left = sum(trials * means.get(cell, overall) for cell, trials in self._trials_left.items())
            minutes, seconds = divmod(round(left), 60)
            hours, minutes = divmod(minutes, 60)
            text = f"about {hours}:{minutes:02}:{seconds:02} left" if hours else f"about {minutes}:{seconds:02} left"
        self._bar.update(self._task, description=description, left=text)


@contextmanager
def observer() -> Iterator[ProgressListener]:
    """The listener for a run: a display on a terminal, which disappears at the end."""
    stderr = console.progress()
    if not stderr.is_terminal:
        yield Plain()
        return
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=stderr, transient=True) as bar:
        yield Display(bar)
