"""How a run is going: a bar on standard error if that is a terminal, and nothing otherwise."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dyno.cli.console import progress as progress_console
from dyno.cli.console import tell
from dyno.contracts.model import Trial
from dyno.contracts.sample import Cell
from dyno.report.tables import row_titles
from dyno.results import FLOOR_BLOCKS, Attempt, beside
from dyno.runner.parent import NoProgress
from dyno.runner.plan import Plan
from dyno.stats.machine import machine_doubts


class Estimate:
    """The time left: what each cell's trials took so far, for those that it still has to do."""

    def __init__(self, planned: Mapping[int, int]) -> None:
        self._left = dict(planned)
        self._took: dict[int, list[float]] = defaultdict(list)

    def extend(self, cells: Iterable[int]) -> None:
        """These have one more to do."""
        for cell in cells:
            self._left[cell] += 1

    def left(self, cell: int) -> int:
        return self._left[cell]

    def add(self, attempt: Attempt) -> None:
        self._took[attempt.cell].append(attempt.duration_ns / 1e9)
        self._left[attempt.cell] = max(self._left[attempt.cell] - 1, 0)

    def seconds_left(self) -> float | None:
        """None until a trial has ended."""
        if not self._took:
            return None
        overall = fmean(fmean(times) for times in self._took.values())
        means = {cell: fmean(times) for cell, times in self._took.items()}
        return sum(count * means.get(cell, overall) for cell, count in self._left.items())


class Plain(NoProgress):
    """For who reads what is left on standard error afterwards."""

    def left(self, why: str) -> None:
        tell(why)


class Display:
    """A line with a bar, the trial and phase at work, and the time left."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None, left="")
        self._what = ""
        self._ranked: list[int] = []
        self._total = 0
        self._estimate = Estimate({})

    def begin(self, plan: Plan, done: Sequence[Attempt]) -> None:
        floors = min(plan.samples, FLOOR_BLOCKS)
        planned = {at: floors if beside(plan.cells, cell) else plan.samples for at, cell in enumerate(plan.cells)}
        trials = {(attempt.cell, attempt.block): attempt for attempt in done}
        for at, ended in Counter(cell for cell, _ in trials).items():
            planned[at] = max(planned[at], ended)
        self._ranked = [at for at, cell in enumerate(plan.cells) if not beside(plan.cells, cell)]
        self._total, self._estimate = sum(planned.values()), Estimate(planned)
        for attempt in trials.values():
            self._estimate.add(attempt)
        self._bar.update(self._task, total=self._total, completed=len(trials))

    def found(self, host: Mapping[str, Any]) -> None:
        for finding in machine_doubts(host):
            if finding.severity != "ok":
                self._bar.console.print(f"{finding.text}: {finding.remedy}", soft_wrap=True)

    def trial(self, cell: Cell, trial: Trial, attempt: int) -> None:
        if attempt == 0 and not self._estimate.left(trial.cell):
            # Of a null engine, which is not yet known well enough.
            self._more([trial.cell])
        again = f", attempt {attempt + 1}" if attempt else ""
        row = row_titles.engine(cell.label, None if cell.follows else cell.tier)
        self._what = f"{row}, block {trial.block + 1}{again}"
        self._show(self._what)

    def phase(self, name: str) -> None:
        self._show(f"{self._what}: {name}")

    def ended(self, cell: Cell, attempt: Attempt) -> None:
        if attempt.outcome != "ok":
            self._bar.console.print(f"{cell.asked}, block {attempt.block + 1}: {attempt.outcome}: {attempt.why}")
        if attempt.attempt == 0:
            self._estimate.add(attempt)
            self._bar.advance(self._task)

    def extended(self, blocks: int, why: str) -> None:
        self._more(self._ranked)
        self._bar.console.print(f"block {blocks}: {why}")

    def left(self, why: str) -> None:
        self._bar.console.print(why, soft_wrap=True)

    def _more(self, cells: Sequence[int]) -> None:
        self._estimate.extend(cells)
        self._total += len(cells)
        self._bar.update(self._task, total=self._total)

    def _show(self, what: str) -> None:
        left = self._estimate.seconds_left()
        text = "" if left is None else f"about {_clock(left)} left"
        self._bar.update(self._task, description=what, left=text)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def observer() -> Iterator[Plain | Display]:
    """Who is to be told: a display that goes away at the end, where there is a terminal for it."""
    console = progress_console()
    if not console.is_terminal:
        yield Plain()
        return
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield Display(bar)
