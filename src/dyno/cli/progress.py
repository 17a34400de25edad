"""Shows the progress of a run on standard error: a bar on a terminal, or else a line every minute."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dyno.cli.console import print_note, progress
from dyno.cli.engines import clock
from dyno.contracts.cell import Cell
from dyno.contracts.model import Trial
from dyno.contracts.probe_time import USUAL_PROBES
from dyno.contracts.profile import CALLS, CPU
from dyno.report.tables import display
from dyno.results import FLOOR_BLOCKS, Attempt, is_reference
from dyno.results.header import Host
from dyno.runner.parent import ProgressListener
from dyno.runner.plan import Plan
from dyno.runner.probes import forecast_search
from dyno.stats.machine import machine_doubts

UNPROFILED = {CPU: "no profiles", CALLS: "system calls are not counted"}


class Display(ProgressListener):
    """Shows a line with a bar, the current trial and phase, and the time left."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None, left="")
        self._description = ""
        self._open = ""
        """The open comparisons, as the end of the line."""
        self._plan: Plan | None = None
        self._ranked: list[int] = []
        self._trials_left = Counter[int]()
        """By cell, like the durations of trials in seconds."""
        self._seconds: dict[int, list[float]] = defaultdict(list)

    def begin(self, plan: Plan, done: Sequence[Attempt]) -> None:
        self._plan = plan
        floors = min(plan.samples, FLOOR_BLOCKS)
        self._ranked = [at for at, cell in enumerate(plan.cells) if not is_reference(plan.cells, cell)]
        for at in range(len(plan.cells)):
            if at in self._ranked:
                if plan.limit:
                    self._trials_left[at] = 1 + USUAL_PROBES
                else:
                    self._trials_left[at] = plan.samples
            else:
                self._trials_left[at] = floors
        trials = {(attempt.cell, attempt.block): attempt for attempt in done}
        for attempt in trials.values():
            self._count(attempt)
        self._bar.update(self._task, total=self._trials_left.total() + len(trials), completed=len(trials))

    def machine(self, host: Host) -> None:
        for finding in machine_doubts(host):
            if finding.severity != "ok":
                self._say(f"{finding.text}: {finding.remedy}")

    def trial(self, cell: Cell, trial: Trial, attempt: int) -> None:
        if attempt == 0 and not self._trials_left[trial.cell]:
            # A null engine whose interval is still wide.
            self._extend([trial.cell])
        again = ""
        if attempt:
            again = f", attempt {attempt + 1}"
        row = display.engine(cell.label, None if cell.follows else cell.tier)
        self._description = f"{row}, block {trial.block + 1}{again}"
        if trial.profiled:
            self._description = f"{row}, profiled trial"
        self._show(self._description + self._open)

    def phase(self, name: str) -> None:
        self._show(f"{self._description}: {name}{self._open}")

    def ended(self, cell: Cell, attempt: Attempt) -> None:
        if attempt.outcome != "ok":
            self._say(f"{cell.asked}, block {attempt.block + 1}: {attempt.outcome}: {attempt.why}")
        elif self._plan is not None and self._plan.limit and attempt.stage is None:
            self._say_forecast(self._plan, cell, attempt)
        if attempt.attempt == 0:
            self._count(attempt)
            self._bar.advance(self._task)

    def _say_forecast(self, plan: Plan, cell: Cell, closed: Attempt) -> None:
        times = forecast_search(plan, closed)
        if times is not None:
            usual, most = map(clock, times)
            self._say(f"{cell.asked}: its search takes about {usual} of trials, {most} at most")

    def extended(self, blocks: int, why: str, cells: Collection[int] | None = None) -> None:
        if cells is None:
            self._extend(self._ranked)
            self._say(f"block {blocks}: {why}")
        else:
            self._extend(list(cells))
            self._open = f"; {why}"

    def unprofiled(self, what: str, why: str) -> None:
        self._say(f"{UNPROFILED[what]}: {why}")

    def leftover(self, why: str) -> None:
        self._say(why)

    def _say(self, text: str) -> None:
        self._bar.console.print(text, soft_wrap=True)

    def _count(self, attempt: Attempt) -> None:
        self._seconds[attempt.cell].append(attempt.duration_ns / 1e9)
        self._trials_left[attempt.cell] = max(self._trials_left[attempt.cell] - 1, 0)

    def _extend(self, cells: Sequence[int]) -> None:
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
            if hours:
                text = f"about {hours}:{minutes:02}:{seconds:02} left"
            else:
                text = f"about {minutes}:{seconds:02} left"
        self._bar.update(self._task, description=description, left=text)


class Plain(Display):
    """Prints a line now and then, and what the user must know when the run has ended."""

    def __init__(self, bar: Progress, every_s: float = 60) -> None:
        super().__init__(bar)
        self._every_s, self._last = every_s, time.monotonic()

    def unprofiled(self, what: str, why: str) -> None:
        print_note(f"{UNPROFILED[what]}: {why}")

    def leftover(self, why: str) -> None:
        print_note(why)

    def _say(self, text: str) -> None:
        """The report repeats it."""

    def _show(self, description: str) -> None:
        super()._show(description)
        if time.monotonic() - self._last >= self._every_s:
            self._last, (task,) = time.monotonic(), self._bar.tasks
            if task.fields["left"]:
                left = f" {task.fields['left']},"
            else:
                left = ""
            print(f"{task.completed:.0f} of {task.total:.0f} trials,{left} {description}", file=sys.stderr)


@contextmanager
def observer() -> Iterator[ProgressListener]:
    """The listener for a run: a display on a terminal, which disappears at the end."""
    stderr = progress()
    if not stderr.is_terminal:
        yield Plain(Progress(console=stderr, disable=True))
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
