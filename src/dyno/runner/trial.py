"""Executes one trial in a fresh process and says how it ended, whatever the engine does to that process."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import Any

from dyno.contracts.model import Caveat, Tier, Trial
from dyno.contracts.pipe import new_key
from dyno.contracts.sample import Cell
from dyno.host import strain
from dyno.host.confine import CannotConfine, Group, confined
from dyno.host.force_remove import remove, unmount
from dyno.host.process import nothing_left
from dyno.results import Attempt
from dyno.runner.dataset import Datasets
from dyno.runner.leftovers import remove_stores
from dyno.runner.plan import GENERAL, Plan
from dyno.runner.resources import INTERVAL, Watch
from dyno.runner.trial_report import ASKEW, CLOSED, TrialReport
from dyno.runner.worker_channel import ClockMismatch, ProtocolError, WorkerChannel
from dyno.runner.worker_pool import Process, WorkerPools, WorkerStartError, end
from dyno.servers import leftover_processes, set_option
from dyno.text.passwords import mask_secrets
from dyno.text.sanitize import sanitize

OUTPUT, OUTPUT_KEPT = ".output", 4_000
"""Characters of its end."""
GROUP = ".group"
SCARCE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE}
"""What is wrong where a machine has no room, or no file may be opened any more."""
CLOSING_TIME, CLOSED_TIME = 10.0, 2.0
"""In which a worker ends that has closed its pipe, having told how it ended, or not."""


@dataclass(frozen=True)
class TrialContext:
    """What the trials of a run have in common."""

    limit: int
    """The most memory that one may take, in bytes."""
    nurseries: WorkerPools
    datasets: Datasets
    still_awake: Callable[[], None] = lambda: None
    """Raises where cores that are to be kept awake no longer were."""
    tell: Callable[[str], object] = lambda line: None
    """Called with a line about each thing that could not be removed."""


def run_trial(
    plan: Plan,
    cell: Cell,
    trial: Trial,
    number: int,
    home: Path,
    means: TrialContext,
    on_phase: Callable[[str], None],
) -> Attempt:
    """One attempt at a trial, in `home`, which is made and removed. It has the means of the run."""
    started, begin = datetime.now(timezone.utc), monotonic_ns()
    story, printed, peak_bytes = TrialReport(on_phase, begin, plan.secrets), None, 0
    before = strain.counters()
    output = home.with_suffix(OUTPUT)
    job: dict[str, Any] = {}
    left: list[str] = []
    try:
        home.mkdir()
        job = _job(plan, cell, home, means.datasets.of(trial.cell))
        peak_bytes = _carried_out(plan, job, plan.interpreter(cell), means, story)
        printed = None if story.outcome == "ok" else _tail(output, story)
    except OSError as error:
        if error.errno in SCARCE and not story.begun:
            # Every trial's fate, and no engine's doing.
            raise
        # Also where an engine has taken the run's own directory away.
        story.lost(error)
    finally:
        try:
            if job:
                refused, executable = story.outcome == "refused", plan.interpreter(cell)
                left = remove_stores(job, refused, executable, means.nurseries, plan.secrets)
            for line in left:
                means.tell(line)
        finally:
            _cleared(home, output)
    duration = monotonic_ns() - begin
    return Attempt(
        cell=trial.cell,
        block=trial.block,
        attempt=number,
        outcome=story.outcome or "error",
        why="; ".join(filter(None, (story.why, *left))) or None,
        phase=None if story.outcome == "ok" else story.phase,
        samples=tuple(story.samples),
        started=started.isoformat(timespec="milliseconds"),
        duration_ns=duration,
        version=story.about.get("version"),
        settings=story.about.get("settings"),
        tier=None if (tier := story.about.get("tier")) is None else Tier(tier),
        caveats=tuple(Caveat(**caveat) for caveat in story.about.get("caveats", ())),
        resources={**story.resources, "peak_anonymous_bytes": peak_bytes or None},
        output=printed,
        loop=story.loop,
        absent=story.absent,
        facts=story.facts,
        spent_ns=story.spent_ns,
        strain=_strain(plan, strain.since(before, strain.counters(), duration)),
    )


def _strain(plan: Plan, suffered: dict[str, Any]) -> dict[str, Any]:
    """What keeps the cores awake waits for one whenever anybody else works: nothing is known of who else did."""
    return {**suffered, "cpu_stall_ns": None} if plan.awake else suffered


def _carried_out(plan: Plan, job: Mapping[str, Any], runs: str, means: TrialContext, story: TrialReport) -> int:
    """Has a worker do it. Returns the most anonymous memory that was seen, in bytes."""
    home, limit, nurseries, key = Path(job["home"]), means.limit, means.nurseries, new_key()
    try:
        nurseries.ready(runs)
        with (
            _confined(plan, home) as group,
            nothing_left(),
            nurseries.worker(runs, home, home.with_suffix(OUTPUT), key, job, group.add if group else int) as (
                process,
                pipe,
            ),
            closing(WorkerChannel(pipe, key, story.began_ns)) as hearing,
        ):
            watch = Watch(process.pid, limit, monotonic() + plan.timeout)
            verdict = _listen(process, hearing, watch, story, plan.timeout)
            status = process.wait()
            killed = group is not None and group.killed
    except (WorkerStartError, CannotConfine) as unborn:
        story.outcome, story.why = "crash", story.fit(str(unborn))
        return 0
    story.conclude(verdict, status, plan, limit)
    if killed and story.outcome == "crash":
        most = f"{(plan.confine or 0) / (1 << 30):.2f} GiB"
        story.outcome, story.why = "out-of-memory", f"killed by the kernel: it was confined to {most} of memory"
    return watch.peak_bytes


@contextmanager
def _confined(plan: Plan, home: Path) -> Iterator[Group | None]:
    """The control group of a trial, where it is to have one."""
    if plan.confine is None:
        yield None
    else:
        with confined(plan.confine, home.with_suffix(GROUP)) as group:
            yield group


def _job(plan: Plan, cell: Cell, home: Path, sealed: Path) -> dict[str, Any]:
    params = {name: value for name, value in cell.params.items() if name not in GENERAL}
    return {
        "suite": cell.suite,
        "engine": cell.engine,
        "options": plan.options(cell),
        "read_back": set_option.names_in(other.options for other in plan.cells if other.engine == cell.engine),
        "tier": None if cell.tier is None else cell.tier.value,
        "clients": cell.params["clients"],
        "params": params,
        "phases": list(plan.phases),
        "seed": plan.seed,
        "pace": plan.pace(cell),
        "home": str(home),
        "sealed": str(sealed),
    }


def _listen(process: Process, hearing: WorkerChannel, watch: Watch, story: TrialReport, timeout: float) -> str | None:
    """Hears the worker out. Returns why it had to be killed, if it had to."""
    ended, trial = False, watch.deadline
    while not hearing.over:
        try:
            heard = hearing.listen(0 if ended else INTERVAL)
            for event in heard or ():
                story.hear(event)
        except ProtocolError as garbled:
            end(process)
            return str(garbled)
        except ClockMismatch as askew:
            end(process)
            # Those before, too: nobody knows from when on.
            story.samples.clear()
            return f"{ASKEW}{askew}"
        if heard is None:
            if ended:
                # A child that it left behind may hold the pipe open.
                return None
            # What it said between the two looks is still to be heard.
            ended = process.poll() is not None
        watch.deadline = story.deadline(trial, timeout)
        if verdict := watch.verdict():
            end(process)
            return verdict
    return _closing(process, watch, story)


def _closing(process: Process, watch: Watch, story: TrialReport) -> str | None:
    """The pipe is closed; what is left is the interpreter's end, which an engine may hold up."""
    try:
        longest = CLOSING_TIME if story.outcome else CLOSED_TIME
        process.wait(min(longest, max(watch.deadline - monotonic(), 0.1)))
    except subprocess.TimeoutExpired:
        end(process)
        return "timeout" if story.outcome else CLOSED
    return None


def _tail(output: Path, story: TrialReport) -> str | None:
    """None where the engine has taken it away."""
    with suppress(OSError), output.open("rb") as printed:
        printed.seek(max(printed.seek(0, os.SEEK_END) - 2 * OUTPUT_KEPT, 0))
        told = printed.read(2 * OUTPUT_KEPT).decode(errors="replace")
        # Cut once no secret is in it any more: half of one would not be found.
        return sanitize(mask_secrets(told, story.secrets)[-OUTPUT_KEPT:])
    return None


def _cleared(home: Path, output: Path) -> None:
    """Takes away all that is left. What can't be is told when the run's own directory is to go."""
    unmount(home)
    with suppress(OSError):
        if not home.is_symlink():
            leftover_processes.clear(home)
    remove(home)
    with suppress(OSError):
        output.unlink()
