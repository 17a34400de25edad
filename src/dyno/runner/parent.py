"""Executes a plan: decides which trials each block has, and executes one after the other, each result on disk before
the next begins. This process never imports an engine.

A null engine's cell has a trial in each of the first blocks, and in further blocks while its interval is wide. A
`StopRule` judges the widths.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import partial
from itertools import count, product
from pathlib import Path

from msgspec import structs

import dyno
from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.model import DECIDED, VERSION, Trial, UsageError
from dyno.contracts.profile import CALLS, CPU, PhaseProfile, ProfiledTrial
from dyno.contracts.sanitize import sanitize
from dyno.contracts.versions import find_installed
from dyno.crash import known_results
from dyno.fields import Sample
from dyno.host import ceilings, commit, confine, directories, facts, keep_awake, perf, strace
from dyno.host.keep_awake import wakeups
from dyno.results import FLOOR_BLOCKS, Attempt, Run, is_reference
from dyno.results.header import Host
from dyno.runner import work_directory
from dyno.runner.plan import Plan
from dyno.runner.probes import Fit, Searches
from dyno.runner.trial import Datasets, TrialContext, default_limit, run_trial
from dyno.runner.worker_pool import WorkerPools, name_trial

SEARCHED = "searched"
"""Why a run that searches capacities has ended."""
SETTLED = ("ok", "wrong", "refused")
"""Outcomes that another attempt would not change."""
PRESSURE_SECONDS, WAKEUP_SECONDS = 0.3, 0.15


class ProgressListener:
    """Receives progress events. This base class ignores all of them."""

    def begin(self, plan: Plan, done: Sequence[Attempt]) -> None:
        """The run begins, or resumes after the attempts `done`."""

    def machine(self, host: Host) -> None:
        """The machine's facts were recorded, before the first trial."""

    def trial(self, cell: Cell, trial: Trial, attempt: int) -> None:
        """An attempt at a trial begins."""

    def phase(self, name: str) -> None:
        """The trial begins a phase."""

    def ended(self, cell: Cell, attempt: Attempt) -> None:
        """The attempt has ended."""

    def extended(self, blocks: int, why: str, cells: Collection[int] | None = None) -> None:
        """A block is added to those of the plan. `why` names the wide intervals or the open comparisons. `cells`: the
        numbers of the cells with a trial in the block; None: all."""

    def unprofiled(self, what: str, why: str) -> None:
        """The run was to profile its rows, and can't collect `what`; `why` says why and what to do."""

    def leftover(self, why: str) -> None:
        """Data of this run or of an earlier one can't be removed; `why` says which and why."""


FLOOR_MOST = 9
"""Null engines stop after this many blocks, however wide their interval: on a busy machine it stays wide."""


@dataclass(frozen=True)
class StopRule:
    """Decides whether more samples are needed. The default never asks for more, and can't search."""

    wanting: Callable[[Run, float], str | None] = lambda run, until: None
    """Returns a text with the intervals that are wider than `until`; None if there are none."""
    undecided: Callable[[Run, float], tuple[Collection[int], str]] = lambda run, blocks: ((), "")
    """Returns the numbers of the cells with open comparisons, without those that would probably take more than this
    number of further blocks, and a text that names the comparisons."""
    unsure: Callable[[Run], Collection[int]] = lambda run: ()
    """Returns the numbers of the null engines' cells whose intervals are wide."""
    fit: Fit = lambda limits, probes: None
    """Returns the capacity by the probes of a search: `dyno.stats.capacity.capacity`."""
    limited: Callable[[Host, Sample], bool] = lambda host, sample: False
    """Returns whether the load generator was the limit of a sample, on the machine of these facts."""


def numbers(
    plan: Plan, path: Path, rule: StopRule, extended: Callable[[int, str, Collection[int] | None], object]
) -> Iterator[tuple[int, Collection[int] | None]]:
    """Yields the numbers of the blocks to run, each with the cells that have a trial in it; None if all have one.
    Without `until`, these are the planned blocks. With `until`, blocks are added until all intervals are
    narrow, all comparisons are decided, or the time is up. `extended` is called before each further block."""
    if plan.until is None or plan.within is None:
        yield from ((number, None) for number in range(plan.samples))
        return
    began = time.monotonic()
    longest = 0.0
    last = 0.0
    # A resumed run completes its interrupted block before it decides.
    least = max(plan.samples, results.load(path).blocks)
    for number in count():
        started = time.monotonic()
        if number >= plan.least and started - began + longest > plan.within:
            why = "time"
            break
        cells = None
        if plan.until == DECIDED:
            if number >= plan.samples:
                left = (plan.within - (started - began)) / last if last else math.inf
                cells, text = _find_undecided(path, rule, number, left)
                if not cells and number >= least:
                    why = DECIDED if not rule.undecided(results.load(path), math.inf)[0] else "forecast"
                    break
        elif number >= least:
            wide = rule.wanting(results.load(path), plan.until)
            if wide is None:
                why = "narrow"
                break
            text = wide
        if number >= least:
            extended(number + 1, text, cells)
        yield number, cells
        last = time.monotonic() - started
        longest = max(longest, last)
    if results.load(path).ending != why:
        results.end(path, why)


def _find_undecided(path: Path, rule: StopRule, number: int, left: float) -> tuple[Collection[int], str]:
    """Returns the cells that have a trial in this block, and why. For a block that a resumed run has completed, these
    are the cells that had one."""
    run = results.load(path)
    if any(attempt.block > number for attempt in run.attempts):
        return {attempt.cell for attempt in run.attempts if attempt.block == number}, ""
    before = tuple(attempt for attempt in run.attempts if attempt.block < number)
    return rule.undecided(replace(run, attempts=before), left)


class Floors:
    """Chooses the null engines' cells of each block. A resumed run gets the same cells as an uninterrupted one."""

    def __init__(self, plan: Plan, path: Path, rule: StopRule) -> None:
        self._plan = plan
        self._path = path
        self._rule = rule
        self._open = {at for at, cell in enumerate(plan.cells) if is_reference(plan.cells, cell)}

    def trials(self, number: int, attempts: Sequence[Attempt], ranked: Collection[int] | None = None) -> list[Trial]:
        """Returns the trials of the block. A null engine that is left out of a block is left out of all later ones.
        `ranked`: the numbers of the other cells with a trial; None: all."""
        if number >= FLOOR_MOST:
            self._open.clear()
        if number >= FLOOR_BLOCKS and self._open:
            before = tuple(attempt for attempt in attempts if attempt.block < number)
            self._open &= set(self._rule.unsure(replace(results.load(self._path), attempts=before)))
        trials, cells = self._plan.block(number), self._plan.cells
        others = range(len(cells)) if ranked is None else ranked
        return [t for t in trials if t.cell in (self._open if is_reference(cells, cells[t.cell]) else others)]


def forecast_time(plan: Plan) -> tuple[int, float]:
    """Forecasts a run that stops after its planned blocks. Returns the number of trials, null engines' included, and
    the maximum time of measuring and warm-up in s, without starting, loading and checking."""
    trials, total = 0, 0.0
    for cell in plan.cells:
        if is_reference(plan.cells, cell):
            blocks = min(plan.samples, FLOOR_BLOCKS)
        else:
            blocks = plan.samples
        pace = plan.pace(cell)
        trials += blocks
        total += blocks * len(plan.phases) * (pace.warmup_ns + pace.limit_ns) / 1e9
    return trials, total


@dataclass(frozen=True)
class RunFile:
    """The locked run file, and its attempts so far."""

    path: Path
    lock: results.Lock
    attempts: list[Attempt]

    def store(self, attempt: Attempt) -> Attempt:
        """Appends the attempt and returns it. If its values can't be stored, stores an attempt with the outcome
        'error' instead. Raises RunFileLost."""
        self.lock.check(self.path)
        try:
            results.append(self.path, attempt)
        except UsageError as error:
            self.lock.check(self.path)
            why = sanitize(f"its results can't be stored: {error}", keep="")
            attempt = replace(attempt, outcome="error", why=why, samples=(), version=None, settings=None, caveats=())
            attempt = replace(attempt, loop=None, resources={}, absent={}, facts={}, spent_ns={})
            results.append(self.path, attempt)
        self.lock.check(self.path)
        self.attempts.append(attempt)
        return attempt

    def store_profile(self, profiled: ProfiledTrial) -> None:
        """Appends the profiled trial, without its profiles if they can't be stored. Raises RunFileLost."""
        self.lock.check(self.path)
        try:
            results.append_profile(self.path, profiled)
        except UsageError as error:
            self.lock.check(self.path)
            why = sanitize(f"its profiles can't be stored: {error}", keep="")
            results.append_profile(
                self.path, structs.replace(profiled, outcome="error", why=why, phases=[], missing=[])
            )
        self.lock.check(self.path)

    @contextmanager
    def guard(self, fresh: bool) -> Iterator[None]:
        """If the block fails, removes a new (`fresh`) file without a trial, and raises RunFileLost if the file is
        gone or was changed."""
        try:
            self.lock.check(self.path)
            yield
        except BaseException as error:
            if isinstance(error, (OSError, UsageError)):
                self.lock.check(self.path)
            if isinstance(error, UsageError):
                try:
                    results.load(self.path)
                except UsageError:
                    raise results.RunFileLost(self.path) from None
            if fresh and not self.attempts:
                with suppress(OSError, UsageError):
                    self.lock.check(self.path)
                    # An interruption may come between the writing of the first attempt and its addition to the list.
                    if not results.load(self.path).attempts:
                        self.path.unlink()
            raise


def execute(
    plan: Plan,
    path: Path,
    root: Path,
    observer: ProgressListener | None = None,
    resume: bool = False,
    overwrite: bool = False,
    stop_rule: StopRule | None = None,
    most: int | None = None,
    within: float | None = None,
) -> Run:
    """Runs the trials that the run file does not have yet, in at most `most` blocks, and returns the run. Begins no
    block that would probably end after `within` seconds, except the first. Raises UsageError before it starts
    anything.

    After an interruption the file is readable and has every trial that ended. If no trial has ended, the file is
    removed.
    """
    rule, observer = stop_rule or StopRule(), observer or ProgressListener()
    with ExitStack() as stack:
        lock = stack.enter_context(results.Lock())
        # Before anything starts: the file may be of another plan.
        earlier = None
        if resume and path.exists():
            earlier = _resume(plan, path, lock)
        file = RunFile(path, lock, list(earlier.attempts if earlier else ()))
        # The plan then has the addresses of the resources that are held until the run ends.
        addresses = {name: stack.enter_context(hold(name)) for name, hold in plan.holds.items()}
        plan = replace(plan, addresses={**plan.addresses, **addresses})
        work = stack.enter_context(work_directory.directory(root, observer.leftover))
        pools = stack.enter_context(WorkerPools(plan.suite, work.path))
        _check_confinement(plan, work.path)
        if earlier is None:
            _create(plan, path, work.path, overwrite, lock)
        else:
            results.cut_incomplete_line(path)
            if plan.samples > earlier.plan.samples:
                results.extend(path, plan.samples)
        observer.begin(plan, file.attempts)
        collected = _check_profilers(observer) if plan.profile else []
        worked = 0
        longest = 0.0
        began = time.monotonic()
        with _keep_awake(plan) as still_awake, file.guard(earlier is None):
            observer.machine(results.load(path).header.host)
            limit, datasets = plan.memory or default_limit(), Datasets(plan, work.path)
            context = TrialContext(limit, pools, datasets, still_awake, observer.leftover)
            for trials in _blocks(plan, path, rule, observer, file.attempts):
                before, started = len(file.attempts), time.monotonic()
                if worked and within is not None and started - began + longest > within:
                    break
                pools.renew(trials[0].block if trials else 0)
                for trial in trials:
                    _until_settled(plan, trial, file, work, context, observer)
                worked += len(file.attempts) > before
                longest = max(longest, time.monotonic() - started)
                if worked == most:
                    break
            if collected and results.load(path).complete:
                profile_rows(plan, collected, file, work.path, context, observer)
            return results.load(path)


def _blocks(
    plan: Plan, path: Path, rule: StopRule, observer: ProgressListener, attempts: Sequence[Attempt]
) -> Iterator[Sequence[Trial]]:
    """Yields the trials of each block. `attempts` grows meanwhile."""
    if plan.limit:
        host = results.load(path).header.host
        yield from Searches(plan, partial(rule.limited, host), rule.fit).blocks(attempts)
        if results.load(path).ending != SEARCHED:
            results.end(path, SEARCHED)
        return
    floors = Floors(plan, path, rule)
    for number, cells in numbers(plan, path, rule, observer.extended):
        yield floors.trials(number, attempts, cells)


def _check_confinement(plan: Plan, home: Path) -> None:
    """Raises UsageError if trials can't be confined, or cores can't be kept awake, as the plan requests."""
    weighed = False
    if plan.confine is not None:
        try:
            with confine.create_group(plan.confine, home / "tried.group") as group:
                weighed = group.weighed
        except confine.CannotConfine as error:
            raise UsageError(f"trials can't be confined to a limit of memory: {error}") from None
    with _keep_awake(plan):
        pass
    if plan.awake and weighed:
        raise UsageError(
            "awake and confine exclude each other here: the kernel gives a trial's group as a whole no more time"
            " than each process that keeps a core awake"
        )


@contextmanager
def _keep_awake(plan: Plan) -> Iterator[Callable[[], None]]:
    """Keeps the cores awake during the block, if the plan requests it. Yields a function that raises Asleep if a core
    has slept. Raises UsageError."""
    if not plan.awake:
        yield lambda: None
        return
    try:
        with keep_awake.keep_cores_awake() as keeper:
            yield keeper.check
    except keep_awake.CannotKeepAwake as error:
        raise UsageError(f"the cores can't be kept awake: {error}") from None


def _create(plan: Plan, path: Path, home: Path, overwrite: bool, lock: results.Lock) -> None:
    """Creates the run file, and locks it."""
    host = facts.facts(home)
    host["pressure"] = facts.pressure(PRESSURE_SECONDS)
    if plan.waiting:
        host["wakeups"] = wakeups(WAKEUP_SECONDS)
    else:
        host["wakeups"] = None
    host["ceilings"] = ceilings.load_cached(directories.cache(), home)
    header = {
        "dyno": dyno.__version__,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit.current(),
        "plan": plan.data(),
        "left_out": list(plan.left_out) or None,
        "downloads": _list_downloads(plan) or None,
        **plan.declared,
        "crashed": known_results.load_results(directories.cache(), plan.cells),
        "host": host,
    }
    results.create(path, header, list(plan.cells), replace=overwrite, lock=lock)


def _list_downloads(plan: Plan) -> dict[str, dict[str, str]]:
    """Returns the digests of what was downloaded for each version of an engine, by the names of its rows."""
    downloads = dict[str, dict[str, str]]()
    for cell in plan.cells:
        installed = find_installed(cell.engine, str(cell.options.get(VERSION, "")))
        if installed is not None:
            downloads[cell.asked] = dict(installed.digests)
    return downloads


def _resume(plan: Plan, path: Path, lock: results.Lock) -> Run:
    """Locks an existing run file, and returns the run so far. Raises UsageError if it has another plan."""
    lock.take(path)
    run = results.load(path)
    # A file of an earlier version lacks the options that were added later.
    old = {**asdict(run.plan), "phases": list(run.plan.phases)}
    if not plan.limit and plan.samples > run.plan.samples:
        old["samples"] = plan.samples
    # Profiles are in no figure, so a run may get them later.
    new = {name: value for name, value in plan.data().items() if name != "profile"}
    why = ", ".join(f"{name} was {old[name]}" for name, value in new.items() if old[name] != value)
    if results.planned_cells(path) != results.as_read(plan.cells):
        why = "other engines, tiers or parameters"
    if results.defined_work(run.header.definition) != results.defined_work(plan.declared.get("definition")):
        why = "another definition of the suite"
    if why:
        raise UsageError(f"{path} can't be resumed: it was made by another plan ({why})")
    return run


def _check_profilers(observer: ProgressListener) -> list[str]:
    """Returns what profiled trials can collect here. Reports what they can't: now rather than after the last block,
    which may be hours later."""
    collected = []
    for what, trouble in ((CPU, perf.find_trouble()), (CALLS, strace.find_trouble())):
        if trouble is None:
            collected.append(what)
        else:
            observer.unprofiled(what, trouble)
    return collected


def profile_rows(
    plan: Plan,
    collected: Collection[str],
    file: RunFile,
    home: Path,
    context: TrialContext,
    observer: ProgressListener,
) -> None:
    """Executes the profiled trials of each row whose last trial ended well, and appends them to the run file. Null
    engines and what the file has already are left out. `collected`: what to collect, in a trial each. Raises
    RunFileLost."""
    run = results.load(file.path)
    done = {(each.cell, each.what) for each in run.profiled}
    last = {attempt.cell: attempt for attempt in run.attempts}
    for number, what in product(range(len(plan.cells)), collected):
        cell = plan.cells[number]
        if (number, what) in done or is_reference(plan.cells, cell) or number not in last or not last[number].sound:
            continue
        trial = Trial(number, run.blocks, profiled=what)
        observer.trial(cell, trial, 0)
        context.pools.renew(trial.block)
        attempt, profiled = _profile_row(plan, trial, home, context, observer)
        file.store_profile(profiled)
        observer.ended(cell, attempt)
    if run.ending is not None and len(results.load(file.path).profiled) > len(run.profiled):
        # Earlier versions take a run for resumed if lines follow its last one.
        results.end(file.path, run.ending)


def _profile_row(
    plan: Plan, trial: Trial, home: Path, context: TrialContext, observer: ProgressListener
) -> tuple[Attempt, ProfiledTrial]:
    phases: list[PhaseProfile] = []
    missing: list[str] = []

    def collect(profiles: Sequence[PhaseProfile], lines: Sequence[str]) -> None:
        phases.extend(profiles)
        missing.extend(lines)

    place = home / name_trial(trial.block, trial.cell, 0)
    attempt = run_trial(plan, plan.cells[trial.cell], trial, 0, place, context, observer.phase, collect)
    profiled = ProfiledTrial(
        cell=trial.cell,
        what=trial.profiled or CPU,
        outcome=attempt.outcome,
        why=attempt.why,
        started=attempt.started,
        duration_ns=attempt.duration_ns,
        phases=phases,
        missing=missing,
    )
    return attempt, profiled


def _until_settled(
    plan: Plan,
    trial: Trial,
    file: RunFile,
    work: work_directory.WorkDirectory,
    context: TrialContext,
    observer: ProgressListener,
) -> None:
    """Attempts the trial as often as the plan allows, and appends each attempt to the run file. Attempts of an
    earlier, interrupted run count. Raises RunFileLost."""
    cell = plan.cells[trial.cell]
    earlier = [a for a in file.attempts if (a.cell, a.block) == (trial.cell, trial.block)]
    if earlier and earlier[-1].outcome in SETTLED:
        return
    for number in range(len(earlier), plan.retries + 1):
        observer.trial(cell, trial, number)
        with suppress(OSError):
            # If the directory can't be repaired, the trial reports why.
            work.mend()
        home = work.path / name_trial(trial.block, trial.cell, number)
        attempt = run_trial(plan, cell, trial, number, home, context, observer.phase)
        # Called before the attempt is stored, so that an attempt during which a core slept is discarded.
        context.still_awake()
        attempt = file.store(attempt)
        context.datasets.remove_finished(attempt)
        if attempt.sound:
            context.checked.add(attempt.cell)
        observer.ended(cell, attempt)
        if attempt.outcome in SETTLED:
            return
