"""`dyno run`: from flags to a run file and its table. The flags are those of the run options.
Progress is shown on standard error: a bar on a terminal, or else a line every minute."""

import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dyno import registry, results
from dyno.cli import engines, files, flag_values
from dyno.cli.console import output, print_note, progress
from dyno.cli.flag_values import PATH, Quantity, output_option, split, work_option
from dyno.cli.show import PRICES
from dyno.contracts.cell import Cell
from dyno.contracts.model import Trial, UsageError
from dyno.contracts.passwords import mask_argument
from dyno.host.directories import trouble
from dyno.options import MOST_SAMPLES, OPTIONS, PARAMS, SIZE, SWITCH, WHOLE, Option, RunRequest
from dyno.report.tables import comparison, display, sections, text
from dyno.report.tables.table import groups
from dyno.results import FLOOR_BLOCKS, Attempt, Run, is_reference
from dyno.runner import parent, plan, plan_file, work_directory
from dyno.runner.parent import ProgressListener, StopRule, forecast_time
from dyno.runner.plan import Plan, unpaced
from dyno.runner.plan_file import GIB, size
from dyno.runner.probes import USUAL_PROBES, seconds_of_search
from dyno.runner.rows import placed
from dyno.stats.capacity import NONE, capacity
from dyno.stats.costs import costs, read_prices
from dyno.stats.machine import machine_doubts
from dyno.stats.searched import limited
from dyno.stats.summary import absences, unsure_floors, widest

F = TypeVar("F", bound=Callable[..., Any])
COMPLETIONS = {
    "engines": flag_values.ENGINES,
    "params": flag_values.PARAMETER,
    "preset": flag_values.PRESET,
    "tier": flag_values.TIER,
    "phases": flag_values.PHASES,
}


def run_flags(*names: str, but: Sequence[str] = (), **helps: str) -> Callable[[F], F]:
    """Adds the flags of the options with these names, or of all options `but` some. `helps`: other help texts."""
    rows = [each for each in OPTIONS if (each.name in names if names else each.name not in but)]

    def add(function: F) -> F:
        # The decorator applied last is listed first.
        for option in reversed(rows):
            kind, words, more = option.kind, [option.flag], dict[str, Any]()
            if option.short:
                words.insert(0, option.short)
            if kind is WHOLE:
                more["type"] = click.IntRange(None if option.least is None else int(option.least), int(option.most))
            elif kind.read is not None:
                least = option.least or 0
                more["type"] = Quantity(kind.read, least / GIB if kind is SIZE else least)
            elif kind is SWITCH:
                words = [f"{option.flag}/--no-{option.key}"]
            function = click.option(
                *words,
                option.name,
                default=None,
                # Flags of lists may be repeated if they have a short name.
                multiple=(kind.several or kind is PARAMS) and bool(option.short),
                metavar=option.metavar or (kind.words.upper() if kind.read else None),
                shell_complete=COMPLETIONS.get(option.name),
                help=helps.get(option.name, option.help),
                **more,
            )(function)
        return function

    return add


def request(what: str, given: dict[str, Any], on: str | None = None) -> RunRequest:
    """The request for a suite, or of a plan file overridden by flags. `on`: address of the user's server for all
    engines. Raises UsageError."""
    base = plan_file.read(Path(what)) if what.endswith(".toml") else RunRequest(suite=what)
    values = {each.name: value for each in OPTIONS if (value := _value(each, given[each.name])) not in (None, [])}
    # They exclude each other: a flag overrides the other one's key, too.
    if "duration" in values:
        base = replace(base, budget=None)
    if "budget" in values:
        base = replace(base, duration=None)
    base = replace(base, **{**values, "params": {**base.params, **values.get("params", {})}})
    return base if on is None else replace(base, engines=placed(registry.suite(base.suite), base.engines, on))


def _value(option: Option, given: Any) -> Any:
    """The value for the field of RunRequest; None or an empty list if the flag was not given. Raises UsageError."""
    if option.kind is PARAMS:
        return flag_values.params(given)
    if option.kind.several:
        texts = [given] if isinstance(given, str) else list(given or ())
        if texts and not split(texts):
            raise UsageError(f"{option.flag}: expected at least one value, got {texts[0]!r}")
        return split(texts)
    return size(option.name, given) if option.kind is SIZE and given is not None else given


FAILED, NOTHING = 1, 3
PASSWORD_SHOWN = (
    "warning: other users can read the password on this command line (ps): use url=env:NAME or url=file:PATH"
)
RESUME = click.option("--resume", is_flag=True, help="Continue an interrupted run in the run file.")
OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace the run file if it exists.")


@click.command(name="run")
@click.argument("what", metavar="SUITE|PLAN.toml", shell_complete=flag_values.SUITE)
@run_flags("engines")
@click.option(
    "--on",
    metavar="ADDRESS",
    help="Your own server or cluster, for all engines: tcp://scheduler:8786, spark://host:7077, env:NAME, file:PATH.",
)
@run_flags(but=["engines"])
@output_option("Run file to write. Default: SUITE-DATE-TIME.json.", "RUN")
@RESUME
@OVERWRITE
@click.option(
    "--blocks",
    "most",
    type=click.IntRange(1, MOST_SAMPLES),
    metavar="N",
    help="Stop after N blocks; --resume runs the next ones. For measuring two versions in turns.",
)
@click.option("--all", "whole", is_flag=True, help="Print every table at the end: intervals, latencies and doubts.")
@click.option("--prices", "table", type=PATH, metavar="FILE", help=PRICES)
@click.option("--dry-run", "dry", is_flag=True, help="Print the plan and its measuring time; run nothing.")
@work_option()
def run_command(
    what: str,
    path: str | None,
    resume: bool,
    overwrite: bool,
    most: int | None,
    dry: bool,
    whole: bool,
    root: Path | None,
    table: Path | None,
    on: str | None,
    **flags: Any,
) -> int:
    """Measure engines on the work of SUITE, or run a plan file.

    \b
    dyno run records
    dyno run records -e lmdb,sqlite:journal_mode=delete --tier power --samples 5 -o r.json
    dyno run records -e sqlite -p txn=1,100,all
    """
    requested = request(what, flags, on)
    run_plan = plan.resumed(requested, Path(path)) if resume and path else plan.make(requested)
    prices = None if table is None else read_prices(table)
    # An option that names a variable or a file is no password.
    words = [re.sub(r"\w+=(env|file):[^+,]*", "", word) for word in (*flags["engines"], on or "")]
    if any(mask_argument(word) != word for word in words):
        print_note(PASSWORD_SHOWN)
    if dry:
        engines.print_plan(run_plan.suite, run_plan.phases, run_plan.cells, _forecast(run_plan), output())
        return 0
    run = carry_out(run_plan, path, root, resume, overwrite, most)
    text.render(run, output(), whole=whole)
    if prices is not None:
        sections.render([comparison.by_cost([(run, "", costs(run, prices))], prices)], output())
    return status(run)


def _forecast(run_plan: Plan) -> str:
    """The number of trials and the longest measuring time, as a sentence."""
    if run_plan.limit:
        engines_named = len(run_plan.cells)
        searches = f"{engines_named} search{'es' * (engines_named != 1)} of about {USUAL_PROBES} probes each"
        return f"{searches}: {engines.clock(engines_named * seconds_of_search(run_plan))} at least"
    trials, seconds = forecast_time(run_plan)
    fewer = run_plan.samples > FLOOR_BLOCKS and any(is_reference(run_plan.cells, cell) for cell in run_plan.cells)
    blocks, phases = run_plan.samples, len(run_plan.phases)
    # The sentence explains the words trial and block, because it is the first to use them.
    count = f"{trials:,} trial{'s' * (trials != 1)} in {blocks} block{'s' * (blocks != 1)}"
    floors = f"; floors in {FLOOR_BLOCKS} of them" if fewer else ""
    each = f"(one of every row, shuffled{floors}), of {phases} phase{'s' * (phases != 1)} each"
    whole = f"with starting, loading and checking {engines.clock(trials * run_plan.timeout)} at most (the timeouts)"
    sentence = f"{count} {each}: measuring takes {engines.clock(seconds)} at most; {whole}"
    if run_plan.until is not None and run_plan.within is not None:
        sentence += "; further blocks follow until each interval is narrow,"
        sentence += f" for {engines.clock(run_plan.within)} at most"
    return f"{sentence}\n{note}" if (note := _unexpected(run_plan)) else sentence


def _unexpected(run_plan: Plan) -> str:
    """What the plan does not do although it was requested: a line each."""
    return "\n".join([*filter(None, [unpaced(run_plan)]), *(f"left out: {why}" for why in run_plan.left_out)])


def carry_out(
    run_plan: Plan,
    path: str | None,
    root: Path | None,
    resume: bool,
    overwrite: bool,
    most: int | None = None,
    show: Callable[[Run], object] | None = None,
) -> Run:
    """Executes the plan with a progress display, and prints where the run file is. `show`: prints what an interrupted
    run has measured. Raises UsageError."""
    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    if resume and path is None:
        raise UsageError("--resume needs -o RUN, the file to continue")
    if sys.stderr.isatty():
        print_note(_forecast(run_plan))
    elif note := _unexpected(run_plan):
        # Not progress: the user requested it.
        print_note(note)
    file = files.run_file(path or f"{run_plan.suite}-{datetime.now():%Y%m%d-%H%M%S}.json")
    try:
        with observer() as listener:
            rule, home = StopRule(widest, unsure_floors, capacity, limited), root or work_directory.default_root()
            run = parent.execute(run_plan, file, home, listener, resume, overwrite, rule, most)
    except KeyboardInterrupt:
        if completed := _completed_trials(file):
            if show is not None:
                show(results.load(file))
            print(completed, file=sys.stderr)
        raise
    except results.RunFileLost as error:
        print_note(f"the run stopped: {trouble(error)}; its results are lost")
        raise click.exceptions.Exit(FAILED) from None
    except OSError as error:
        if completed := _completed_trials(file):
            print_note(f"the run stopped: {trouble(error)}; {completed}")
            raise click.exceptions.Exit(FAILED) from None
        raise UsageError(f"{trouble(error)}; nothing was measured") from None
    if run_plan.until is not None and run.ending == "time":
        print(f"The time was up: {widest(run, run_plan.until) or 'all intervals are narrow'}", file=sys.stderr)
    print(f"Written to {file}", file=sys.stderr)
    return run


def _completed_trials(file: Path) -> str | None:
    """What the file of a stopped run has, and how to continue; None if no trial has ended."""
    with suppress(UsageError):
        ended, planned = results.load(file).progress
        if ended:
            return (
                f"{ended} of {planned} trials are kept in {file}; to continue, repeat the command with"
                f" -o {file} --resume"
            )
    return None


def status(run: Run) -> int:
    """Exit status: 0 if all rows are valid, 1 if some are, 3 if none is."""
    rows = [row.summary for group in groups(run) for row in group.rows if not row.summary.cell.floor]
    # That no rate holds is an answer, too.
    valid = [row for row in rows if row.valid or (row.searched and row.searched.capacity.kind == NONE)]
    probed = any(row.searched and row.searched.probes for row in rows)
    if not valid and not probed and (rows or absences(run)):
        return NOTHING
    return 0 if len(valid) == len(rows) else FAILED


# -- progress -----------------------------------------------------------------------------------------------


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
            self._trials_left[at] = (
                (1 + USUAL_PROBES if plan.limit else plan.samples) if at in self._ranked else floors
            )
        trials = {(attempt.cell, attempt.block): attempt for attempt in done}
        for attempt in trials.values():
            self._count(attempt)
        self._bar.update(self._task, total=self._trials_left.total() + len(trials), completed=len(trials))

    def machine(self, facts: Mapping[str, Any]) -> None:
        for finding in machine_doubts(facts):
            if finding.severity != "ok":
                self._say(f"{finding.text}: {finding.remedy}")

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
            self._say(f"{cell.asked}, block {attempt.block + 1}: {attempt.outcome}: {attempt.why}")
        if attempt.attempt == 0:
            self._count(attempt)
            self._bar.advance(self._task)

    def extended(self, blocks: int, why: str) -> None:
        self._extend(self._ranked)
        self._say(f"block {blocks}: {why}")

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
            text = f"about {hours}:{minutes:02}:{seconds:02} left" if hours else f"about {minutes}:{seconds:02} left"
        self._bar.update(self._task, description=description, left=text)


class Plain(Display):
    """Prints a line now and then, and what the user must know when the run has ended."""

    def __init__(self, bar: Progress, every_s: float = 60) -> None:
        super().__init__(bar)
        self._every_s, self._last = every_s, time.monotonic()

    def leftover(self, why: str) -> None:
        print_note(why)

    def _say(self, text: str) -> None:
        """The report repeats it."""

    def _show(self, description: str) -> None:
        super()._show(description)
        if time.monotonic() - self._last >= self._every_s:
            self._last, (task,) = time.monotonic(), self._bar.tasks
            left = f" {task.fields['left']}," if task.fields["left"] else ""
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
