"""Executes one trial in a fresh process and says how it ended, whatever the engine does to that process."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dyno.host import strain
from dyno.host.confine import Group, Unconfined, confined
from dyno.host.process import nothing_left
from dyno.model import Caveat, Cell, Sample, Trial
from dyno.passwords import HIDDEN
from dyno.results import Attempt, sample
from dyno.run.dataset import Datasets
from dyno.run.nursery import Nurseries, Process, Unborn, end
from dyno.run.plan import GENERAL, Plan
from dyno.run.resources import INTERVAL, Watch
from dyno.servers import strays

OUTPUT, OUTPUT_KEPT = ".output", 4_000
GROUP = ".group"
CLOSING_TIME = 10.0


@dataclass
class _Story:
    """What a worker has told so far, and how its process ended."""

    on_phase: Callable[[str], None]
    secrets: tuple[str, ...] = ()
    """Passwords, which an engine may put into what it says."""
    phase: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    outcome: str | None = None
    why: str | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    spent_ns: dict[str, int] = field(default_factory=dict)
    loop: dict[str, Any] | None = None
    absent: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def hear(self, line: bytes) -> bool:
        """Takes in a line of the worker's; False for one that it can't have written."""
        try:
            self._take(json.loads(line))
        except (AttributeError, KeyError, TypeError, ValueError):
            return False
        return True

    def hidden(self, told: Any) -> Any:
        """What an engine said, without passwords: a text, or texts in lists and by name."""
        if isinstance(told, dict):
            return {name: self.hidden(value) for name, value in told.items()}
        if isinstance(told, list):
            return [self.hidden(value) for value in told]
        for secret in self.secrets if isinstance(told, str) else ():
            told = told.replace(secret, HIDDEN)
        return told

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.pop("event")
        if kind == "phase":
            self.phase = event["phase"]
            self.on_phase(event["phase"])
        elif kind == "engine":
            self.about = self.hidden(event)
        elif kind == "loop":
            self.loop = event
        elif kind == "facts":
            self.facts = self.hidden(dict(event["facts"]))
        elif kind == "absent":
            self.absent[event["phase"]] = self.hidden(event["why"])
        elif kind == "sample":
            told = event["sample"]
            self.samples.append(sample(told | {name: self.hidden(told[name]) for name in ("first_error", "void")}))
        elif kind == "end":
            self.outcome, self.why, self.resources = event["outcome"], self.hidden(event["why"]), event["resources"]
            self.spent_ns = event["spent_ns"]

    def conclude(self, verdict: str | None, status: int, plan: Plan, limit: int) -> None:
        """Settles the outcome from the watch's verdict and the exit status."""
        if verdict == "timeout":
            self.outcome, self.why = verdict, f"not done after {plan.timeout:g} s"
        elif verdict == "out-of-memory":
            self.outcome, self.why = verdict, f"took more than {limit / (1 << 30):.2f} GiB of memory"
        elif verdict == "garbled":
            self.outcome, self.why = "error", "something other than Dyno wrote on the pipe of the results"
        elif self.outcome in (None, "ok") and status != 0:
            self.outcome, self.why = "crash", _died(status)
        elif self.outcome is None:
            self.outcome, self.why = "crash", "ended without a result"


def _died(status: int) -> str:
    if status == -signal.SIGKILL:
        return "killed by SIGKILL, perhaps by the kernel for want of memory"
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exited with status {status} before it was done"


@dataclass(frozen=True)
class Means:
    """What the trials of a run have in common."""

    limit: int
    """The most memory that one may take, in bytes."""
    nurseries: Nurseries
    datasets: Datasets
    still_awake: Callable[[], None] = lambda: None
    """Raises where cores that are to be kept awake no longer were."""


def run_trial(
    plan: Plan,
    cell: Cell,
    trial: Trial,
    number: int,
    home: Path,
    means: Means,
    on_phase: Callable[[str], None],
) -> Attempt:
    """One attempt at a trial, in `home`, which is made and removed. It has the means of the run."""
    started, begin = datetime.now(timezone.utc), time.monotonic_ns()
    story = _Story(on_phase, plan.secrets)
    before = strain.counters()
    home.mkdir()
    output = home.with_suffix(OUTPUT)
    try:
        peak_bytes = _carried_out(
            plan, _job(plan, cell, home, means.datasets.of(trial.cell)), plan.interpreter(cell), means, story
        )
        printed = None if story.outcome == "ok" else story.hidden(_tail(output))
    finally:
        strays.clear(home)
        shutil.rmtree(home, ignore_errors=True)
        output.unlink(missing_ok=True)
    duration = time.monotonic_ns() - begin
    return Attempt(
        cell=trial.cell,
        block=trial.block,
        attempt=number,
        outcome=story.outcome or "error",
        why=story.why,
        phase=None if story.outcome == "ok" else story.phase,
        samples=tuple(story.samples),
        started=started.isoformat(timespec="milliseconds"),
        duration_ns=duration,
        version=story.about.get("version"),
        settings=story.about.get("settings"),
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


def _carried_out(plan: Plan, job: Mapping[str, Any], runs: str, means: Means, story: _Story) -> int:
    """Has a worker do it. Returns the most anonymous memory that was seen, in bytes."""
    home, limit, nurseries = Path(job["home"]), means.limit, means.nurseries
    nurseries.ready(runs)
    try:
        with (
            _confined(plan, home) as group,
            nothing_left(),
            nurseries.worker(runs, home, home.with_suffix(OUTPUT), job, group.add if group else int) as (
                process,
                pipe,
            ),
        ):
            watch = Watch(process.pid, limit, time.monotonic() + plan.timeout)
            verdict = _listen(process, pipe, watch, story)
            status = process.wait()
            killed = group is not None and group.killed
    except (Unborn, Unconfined) as unborn:
        story.outcome, story.why = "crash", str(unborn)
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
        "tier": None if cell.tier is None else cell.tier.value,
        "clients": cell.params["clients"],
        "params": params,
        "phases": list(plan.phases),
        "seed": plan.seed,
        "pace": plan.pace(cell),
        "home": str(home),
        "sealed": str(sealed),
    }


def _listen(process: Process, pipe: int, watch: Watch, story: _Story) -> str | None:
    """Hears the worker out. Returns the watch's verdict if it had to be killed."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if selector.select(INTERVAL):
                chunk = os.read(pipe, 1 << 16)
                *lines, rest = (rest + chunk).split(b"\n")
                if not all(story.hear(line) for line in lines):
                    end(process)
                    return "garbled"
                if not chunk:
                    return _closing(process, watch)
            elif process.poll() is not None:
                # A child that it left behind may hold the pipe open.
                return None
            if verdict := watch.verdict():
                end(process)
                return verdict


def _closing(process: Process, watch: Watch) -> str | None:
    """The pipe is closed; what is left is the interpreter's end, which an engine may hold up."""
    try:
        process.wait(min(CLOSING_TIME, max(watch.deadline - time.monotonic(), 0.1)))
    except subprocess.TimeoutExpired:
        end(process)
        return "timeout"
    return None


def _tail(output: Path) -> str:
    return output.read_bytes()[-OUTPUT_KEPT:].decode(errors="replace")
