"""Carries a plan out: trial after trial, each result on disk before the next begins. It never imports an engine."""

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
from dyno.runner.dataset import Datasets
from dyno.runner.plan import Plan
from dyno.runner.resources import default_limit
from dyno.runner.strategy import NOBODY, Floors, StopRule, numbers
from dyno.runner.trial import TrialContext, run_trial
from dyno.runner.worker_pool import WorkerPools
from dyno.text.sanitize import sanitize

# Ends that another attempt would not change.
SETTLED = ("ok", "wrong", "refused")
WATCHED_SECONDS, WOKEN_SECONDS = 0.3, 0.15


class ProgressListener(Protocol):
    """Who wants to know how the run is going: a progress display, or `NoProgress`."""

    def begin(self, plan: Plan, done: Sequence[Attempt]) -> None: ...

    def found(self, host: Mapping[str, Any]) -> None:
        """How the machine is before the first trial."""

    def trial(self, cell: Cell, trial: Trial, attempt: int) -> None: ...

    def phase(self, name: str) -> None: ...

    def ended(self, cell: Cell, attempt: Attempt) -> None: ...

    def extended(self, blocks: int, why: str) -> None:
        """A block is added to those of the plan, since so much is wanting."""

    def left(self, why: str) -> None:
        """Something of a run, of this one or of an earlier one, can't be removed."""


class NoProgress:
    """Nobody wants to know."""

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
    judge: StopRule = NOBODY,
    most: int | None = None,
) -> Run:
    """Runs what is not yet in the run file, and returns the run; of blocks with something left to do, at most `most`.
    Raises UsageError before anything is started.

    An interruption leaves the file readable, with every trial that had ended; and no file of this run where none had.
    """
    with (
        _held(plan) as plan,
        work_directory.directory(root, observer.left) as place,
        WorkerPools(plan.suite, place.path) as nurseries,
        results.Lock() as lock,
    ):
        _check_confinement(plan, place.path)
        _check_awake(plan, place.path)
        fresh = not (resume and path.exists())
        attempts = _open(plan, path, place.path, resume, overwrite, lock)
        observer.begin(plan, attempts)
        worked, floors = 0, Floors(plan, path, judge.unsure)
        with (
            _awake(plan) as still,
            _nothing_for_nothing(path if fresh else None, attempts, lock),
            _run_file_kept(path, lock),
        ):
            observer.found(results.load(path).header["host"])
            keep = partial(_kept, path, lock)
            means = TrialContext(
                plan.memory or default_limit(), nurseries, Datasets(plan, place.path), still, observer.left
            )
            for number in numbers(plan, path, observer, judge.wanting):
                before = len(attempts)
                nurseries.renew()
                for trial in floors.trials(number, attempts):
                    _until_settled(plan, trial, keep, place, means, observer, attempts)
                worked += len(attempts) > before
                if worked == most:
                    break
    return results.load(path)


@contextmanager
def _nothing_for_nothing(path: Path | None, attempts: Sequence[Attempt], lock: results.Lock) -> Iterator[None]:
    """A run file that was made for trials of which none has ended is removed where the block is left by an
    exception."""
    try:
        yield
    except BaseException:
        if path is not None and not attempts:
            with suppress(OSError):
                lock.check(path)
                path.unlink()
        raise


@contextmanager
def _run_file_kept(path: Path, lock: results.Lock) -> Iterator[None]:
    """If the block fails and the run file is no longer there, says so in place of what failed because of it. Raises
    RunFileLost."""
    try:
        yield
    except (OSError, UsageError):
        lock.check(path)
        raise


@contextmanager
def _held(plan: Plan) -> Iterator[Plan]:
    """The plan whose trials get what the run holds for itself in the block. Raises UsageError."""
    with ExitStack() as stack:
        given = {name: stack.enter_context(hold(name)) for name, hold in plan.holds.items()}
        yield replace(plan, addresses={**plan.addresses, **given})


def _check_confinement(plan: Plan, home: Path) -> None:
    """Raises UsageError where trials are to be confined and can't be."""
    if plan.confine is not None:
        try:
            confine.check(plan.confine, home)
        except confine.CannotConfine as error:
            raise UsageError(f"trials can't be confined to a limit of memory: {error}") from None


def _check_awake(plan: Plan, home: Path) -> None:
    """Raises UsageError where the cores are to be kept awake and can't be without harm."""
    if not plan.awake:
        return
    with _awake(plan):
        pass
    if plan.confine is not None:
        with confine.confined(plan.confine, home / "weighed.group") as group:
            weighed = group.weighed
        if weighed:
            raise UsageError(
                "awake and confine exclude each other here: the kernel weighs a trial's group as a whole against what"
                " keeps the cores awake, which would take time from it"
            )


@contextmanager
def _awake(plan: Plan) -> Iterator[Callable[[], None]]:
    """The cores are kept awake in the block, if the plan says so. Gives what raises Asleep where they no longer are.
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
    """The attempts that are already in the file, which is created if it is missing. `lock` then holds it."""
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
    found = facts.facts(home)
    found["pressure"] = facts.pressure(WATCHED_SECONDS)
    found["wakeups"] = wakeups(WOKEN_SECONDS)
    found["ceilings"] = ceilings.known(directories.cache(), home)
    return {
        "dyno": dyno.__version__,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "plan": plan.data(),
        **plan.declared,
        "crashed": known_results.of(directories.cache(), plan.cells),
        "host": found,
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
    keep: Callable[[Attempt], Attempt],
    place: work_directory.WorkDirectory,
    means: TrialContext,
    observer: ProgressListener,
    attempts: list[Attempt],
) -> None:
    """Attempts the trial as often as the plan says, starting where an earlier run of it left off."""
    cell = plan.cells[trial.cell]
    earlier = [a for a in attempts if (a.cell, a.block) == (trial.cell, trial.block)]
    if earlier and earlier[-1].outcome in SETTLED:
        return
    for number in range(len(earlier), plan.retries + 1):
        observer.trial(cell, trial, number)
        with suppress(OSError):
            # Where it can't be done, the trial says why.
            place.mend()
        home = place.path / f"trial-{trial.block}-{trial.cell}-{number}"
        attempt = run_trial(plan, cell, trial, number, home, means, observer.phase)
        # What was measured while a core slept is not kept.
        means.still_awake()
        attempt = keep(attempt)
        attempts.append(attempt)
        means.datasets.ended(attempt)
        observer.ended(cell, attempt)
        if attempt.outcome in SETTLED:
            return


def _kept(path: Path, lock: results.Lock, attempt: Attempt) -> Attempt:
    """Adds it to the run file; in its place, that it can't be kept, where that is so. Raises RunFileLost."""
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
