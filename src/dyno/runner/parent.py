"""Executes a plan: trial after trial, each result on disk before the next begins. It never imports an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import dyno
from dyno import results
from dyno.contracts.model import Trial, UsageError
from dyno.contracts.sample import Cell
from dyno.crash import known_results
from dyno.host import ceilings, confine, directories, facts, keep_awake
from dyno.host.wakeups import wakeups
from dyno.options import PlanOptions
from dyno.results import Attempt, Run
from dyno.runner import work_directory
from dyno.runner.plan import Plan
from dyno.runner.resources import default_limit
from dyno.runner.strategy import Floors, StopRule, numbers
from dyno.runner.trial import Datasets, TrialContext, run_trial
from dyno.runner.worker_pool import WorkerPools
from dyno.text.sanitize import sanitize

SETTLED = ("ok", "wrong", "refused")
"""Outcomes that another attempt would not change."""
PRESSURE_SECONDS, WAKEUP_SECONDS = 0.3, 0.15


class ProgressListener(Protocol):
    """Receives progress events."""

    def begin(self, plan: Plan, done: Sequence[Attempt]) -> None: ...

    def found(self, host: Mapping[str, Any]) -> None:
        """Receives the facts about the machine, before the first trial."""

    def trial(self, cell: Cell, trial: Trial, attempt: int) -> None: ...

    def phase(self, name: str) -> None: ...

    def ended(self, cell: Cell, attempt: Attempt) -> None: ...

    def extended(self, blocks: int, why: str) -> None:
        """A block is added to those of the plan; `why` names the wide intervals."""

    def left(self, why: str) -> None:
        """Something of this run or of an earlier one can't be removed."""


class NoProgress:
    """Ignores all events."""

    def begin(self, plan: Plan, done: Sequence[Attempt]) -> None: ...

    def found(self, host: Mapping[str, Any]) -> None: ...

    def trial(self, cell: Cell, trial: Trial, attempt: int) -> None: ...

    def phase(self, name: str) -> None: ...

    def ended(self, cell: Cell, attempt: Attempt) -> None: ...

    def extended(self, blocks: int, why: str) -> None: ...

    def left(self, why: str) -> None: ...


def execute(
    plan: Plan,
    path: Path,
    root: Path,
    observer: ProgressListener,
    resume: bool,
    overwrite: bool,
    stop_rule: StopRule | None = None,
    most: int | None = None,
) -> Run:
    """Runs what is not yet in the run file, at most `most` blocks of it, and returns the run. Raises UsageError
    before anything is started.

    After an interruption the file is readable and has every trial that ended; if none has ended, it is removed.
    """
    rule = stop_rule or StopRule()
    with (
        _held(plan) as plan,
        work_directory.directory(root, observer.left) as work,
        WorkerPools(plan.suite, work.path) as pools,
        results.Lock() as lock,
    ):
        _check_confinement(plan, work.path)
        fresh = not (resume and path.exists())
        attempts = _open(plan, path, work.path, resume, overwrite, lock)
        observer.begin(plan, attempts)
        worked, floors = 0, Floors(plan, path, rule.unsure)
        with _awake(plan) as still_awake, _run_file(path, fresh, attempts, lock):
            observer.found(results.load(path).header["host"])
            store = partial(_store, path, lock)
            limit, datasets = plan.memory or default_limit(), Datasets(plan, work.path)
            context = TrialContext(limit, pools, datasets, still_awake, observer.left)
            for number in numbers(plan, path, observer, rule.wanting):
                before = len(attempts)
                pools.renew()
                for trial in floors.trials(number, attempts):
                    _until_settled(plan, trial, store, work, context, observer, attempts)
                worked += len(attempts) > before
                if worked == most:
                    break
    return results.load(path)


@contextmanager
def _run_file(path: Path, fresh: bool, attempts: Sequence[Attempt], lock: results.Lock) -> Iterator[None]:
    """If the block fails: removes a fresh run file without a trial; raises RunFileLost if the file is gone."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, (OSError, UsageError)):
            lock.check(path)
        if fresh and not attempts:
            with suppress(OSError):
                lock.check(path)
                path.unlink()
        raise


@contextmanager
def _held(plan: Plan) -> Iterator[Plan]:
    """The plan with the addresses of what the run holds during the block. Raises UsageError."""
    with ExitStack() as stack:
        held = {name: stack.enter_context(hold(name)) for name, hold in plan.holds.items()}
        yield replace(plan, addresses={**plan.addresses, **held})


def _check_confinement(plan: Plan, home: Path) -> None:
    """Raises UsageError if trials can't be confined, or the cores can't be kept awake, as planned."""
    if plan.confine is not None:
        try:
            confine.check(plan.confine, home)
        except confine.CannotConfine as error:
            raise UsageError(f"trials can't be confined to a limit of memory: {error}") from None
    if not plan.awake:
        return
    with _awake(plan):
        pass
    if plan.confine is not None:
        with confine.confined(plan.confine, home / "weighed.group") as group:
            weighed = group.weighed
        if weighed:
            raise UsageError(
                "awake and confine exclude each other here: the kernel weighs a trial's group as a whole against the"
                " processes that keep the cores awake, which would take time from it"
            )


@contextmanager
def _awake(plan: Plan) -> Iterator[Callable[[], None]]:
    """Keeps the cores awake in the block, if planned. Yields a function that raises Asleep if they no longer are.
    Raises UsageError."""
    if not plan.awake:
        yield lambda: None
        return
    try:
        with keep_awake.kept() as keeper:
            yield keeper.check
    except keep_awake.CannotKeepAwake as error:
        raise UsageError(f"the cores can't be kept awake: {error}") from None


def _open(plan: Plan, path: Path, home: Path, resume: bool, overwrite: bool, lock: results.Lock) -> list[Attempt]:
    """Opens or creates the run file and locks it. Returns the attempts that it has."""
    if not (resume and path.exists()):
        results.create(path, _header(plan, home), list(plan.cells), replace=overwrite, lock=lock)
        return []
    lock.take(path)
    run = results.load(path)
    if why := _difference(plan, run, path):
        raise UsageError(f"{path} can't be resumed: it was made by another plan ({why})")
    results.mend(path)
    return list(run.attempts)


def _header(plan: Plan, home: Path) -> dict[str, Any]:
    host = facts.facts(home)
    host["pressure"] = facts.pressure(PRESSURE_SECONDS)
    host["wakeups"] = wakeups(WAKEUP_SECONDS)
    host["ceilings"] = ceilings.known(directories.cache(), home)
    return {
        "dyno": dyno.__version__,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "plan": plan.data(),
        **plan.declared,
        "crashed": known_results.of(directories.cache(), plan.cells),
        "host": host,
    }


def _difference(plan: Plan, run: Run, path: Path) -> str | None:
    if results.planned(path) != results.kept(plan.cells):
        return "other engines, tiers or parameters"
    old, new = run.plan, plan.data()
    # A file of an earlier version lacks the options that came later.
    old = {**{each.name: each.default for each in fields(PlanOptions)}, **old}
    changed = [f"{name} was {old.get(name)}" for name in new if old.get(name) != new[name]]
    return ", ".join(changed) or None


def _until_settled(
    plan: Plan,
    trial: Trial,
    store: Callable[[Attempt], Attempt],
    work: work_directory.WorkDirectory,
    context: TrialContext,
    observer: ProgressListener,
    attempts: list[Attempt],
) -> None:
    """Attempts the trial as often as planned, counting attempts of an earlier, interrupted run."""
    cell = plan.cells[trial.cell]
    earlier = [a for a in attempts if (a.cell, a.block) == (trial.cell, trial.block)]
    if earlier and earlier[-1].outcome in SETTLED:
        return
    for number in range(len(earlier), plan.retries + 1):
        observer.trial(cell, trial, number)
        with suppress(OSError):
            # If this fails, the trial reports why.
            work.mend()
        home = work.path / f"trial-{trial.block}-{trial.cell}-{number}"
        attempt = run_trial(plan, cell, trial, number, home, context, observer.phase)
        # Before it is stored: a trial during which a core slept is discarded.
        context.still_awake()
        attempt = store(attempt)
        attempts.append(attempt)
        context.datasets.ended(attempt)
        observer.ended(cell, attempt)
        if attempt.outcome in SETTLED:
            return


def _store(path: Path, lock: results.Lock, attempt: Attempt) -> Attempt:
    """Appends the attempt to the run file and returns it. If it can't be written, appends and returns an error
    instead. Raises RunFileLost."""
    lock.check(path)
    try:
        results.append(path, attempt)
    except UsageError as error:
        why = sanitize(f"its results can't be kept: {error}", keep="")
        attempt = replace(
            attempt,
            outcome="error",
            why=why,
            samples=(),
            version=None,
            settings=None,
            caveats=(),
            resources={},
            loop=None,
            absent={},
            facts={},
            spent_ns={},
        )
        results.append(path, attempt)
    return attempt
