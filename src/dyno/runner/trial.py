"""Executes one trial in a fresh process, and reports how it ended even if the engine kills or hangs that process."""

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from time import monotonic, monotonic_ns, thread_time

import psutil
from msgspec import structs

from dyno.contracts.cell import Cell
from dyno.contracts.model import Trial
from dyno.contracts.passwords import mask_password, mask_secrets
from dyno.contracts.profile import PhaseProfile
from dyno.contracts.sanitize import sanitize
from dyno.host import facts
from dyno.host.confine import CannotConfine, create_group
from dyno.host.force_remove import remove, unmount
from dyno.host.interpreters import Python
from dyno.host.process import nothing_left
from dyno.host.procfs import read_lines, read_text
from dyno.measure.messages import StoreFound, StoreLeft, StoreRemoved, TrialEnded, TrialRequest, WorkerEvent
from dyno.measure.worker_protocol import LATE_SIGNAL, ClockMismatch, ProtocolError, WorkerChannel
from dyno.results import Attempt
from dyno.runner.plan import GENERAL, Plan
from dyno.runner.trial_report import CLOSED, WRONG_CLOCK, TrialReport
from dyno.runner.worker_pool import WorkerPools, WorkerProcess, WorkerStartError, end
from dyno.servers import leftover_processes, namespace, set_option
from dyno.servers.user_server import URL

OUTPUT, OUTPUT_KEPT = ".output", 4_000
"""Suffix of the file with a trial's output, and the number of characters that are kept from its end."""
GROUP = ".group"
SEALED = "sealed"
SCARCE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE}
"""errno values that mean the machine is out of space or descriptors."""
ANSWER_TIME = 1.0
CLOSING_TIME, CLOSED_TIME = 10.0, 2.0
"""Seconds in which a worker must end after it has closed its pipe. The first limit applies if it has reported its
outcome, the second if not."""


INTERVAL = 0.05
SHARE, LONGEST = 0.01, 1.0
"""Maximum share of the time that is spent on searching for new processes, and maximum time between two searches, in
s."""


def anonymous_bytes(pids: Iterable[int]) -> int:
    """Returns the anonymous memory of processes, in bytes. It excludes pages that are mapped from files. Shared
    memory is counted once, for the process that has the most."""
    own, shared = 0, 0
    for pid in pids:
        status = dict(line.partition(":")[::2] for line in read_lines(Path(f"/proc/{pid}/status")))
        anonymous, common = (int((status.get(name) or "0").split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
        own, shared = own + anonymous, max(shared, common)
    return own + shared


def descendants(pid: int) -> Iterator[int]:
    """Yields all descendants of a process. Uses the kernel's list of children if there is one, because reading every
    process of the machine disturbs the measurement."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        with suppress(psutil.Error):
            yield from (child.pid for child in psutil.Process(pid).children(recursive=True))
        return
    # The process may have ended: servers start and end processes at any time.
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (read_text(task / "children") or "").split()):
                yield child
                yield from descendants(child)


@dataclass
class Watch:
    """Watches a worker, its client processes and its server."""

    pid: int
    limit_bytes: int
    deadline: float
    """Time of the kill, in s on the clock of `time.monotonic`."""
    peak_bytes: int = field(default=0)
    _descendants: list[int] = field(default_factory=list)
    _next_search: float = 0.0

    def verdict(self) -> str | None:
        """Returns 'timeout' or 'out-of-memory', or None while the trial is within its limits."""
        # Search for new descendants at times only. With a server of hundreds of threads, a search takes CPU time of
        # milliseconds from the measurement.
        if monotonic() >= self._next_search:
            began = thread_time()
            self._descendants = list(descendants(self.pid))
            self._next_search = monotonic() + min((thread_time() - began) / SHARE, LONGEST)
        used = anonymous_bytes([self.pid, *self._descendants])
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self.limit_bytes:
            return "out-of-memory"
        if monotonic() > self.deadline:
            return "timeout"
        return None


def default_limit() -> int:
    """Returns three quarters of the memory that is available now, in bytes."""
    return int(psutil.virtual_memory().available * 0.75)


class Datasets:
    """The sealed loaded stores of a run, one for each cell: see `OnStore`. Later trials of a cell copy its store."""

    def __init__(self, plan: Plan, home: Path) -> None:
        self._plan, self._home = plan, home / SEALED

    def path(self, cell: int) -> Path:
        return self._home / str(cell)

    def remove_finished(self, attempt: Attempt) -> None:
        """Removes the cell's store after a failed trial, so that the next trial loads again, and after the cell's
        last trial."""
        counted = self._plan.until is None and not self._plan.limit and not self._plan.profile
        last = counted and attempt.block + 1 >= self._plan.samples
        if last or not attempt.sound:
            shutil.rmtree(self.path(attempt.cell), ignore_errors=True)


@dataclass(frozen=True)
class TrialContext:
    """Limits, pools and callbacks that the trials of a run share."""

    limit: int
    """Memory limit of a trial, in bytes."""
    pools: WorkerPools
    datasets: Datasets
    still_awake: Callable[[], None] = lambda: None
    """Raises an exception if the run should keep the cores awake and a core has slept."""
    warn: Callable[[str], object] = lambda line: None
    """Receives a line for each store that could not be removed."""
    checked: set[int] = field(default_factory=set)
    """Numbers of the cells of which a trial has ended well. Their further trials check less: see `Job.thorough`."""


def run_trial(
    plan: Plan,
    cell: Cell,
    trial: Trial,
    number: int,
    home: Path,
    context: TrialContext,
    on_phase: Callable[[str], None],
    on_profile: Callable[[Sequence[PhaseProfile], Sequence[str]], object] = lambda profiles, missing: None,
) -> Attempt:
    """Executes attempt `number` of a trial in the directory `home`, which is created and removed. `on_profile`
    receives the profiles of a profiled trial's phases, and a line for each part that is missing."""
    if trial.bound is not None:
        plan = replace(plan, timeout=min(plan.timeout, trial.bound))
    started, begin = datetime.now(timezone.utc), monotonic_ns()
    report = TrialReport(on_phase, begin, plan.secrets)
    before = facts.counters()
    peak_bytes, printed, left = _report_trial(plan, cell, trial, home, context, report)
    duration = monotonic_ns() - begin
    on_profile(report.profiles, report.unprofiled)
    suffered = facts.subtract_counters(before, facts.counters(), duration)
    if plan.awake:
        # The processes that keep cores awake are stalled whenever another process uses their core, which is no
        # strain.
        suffered["cpu_stall_ns"] = None
    attempt = Attempt(
        cell=trial.cell,
        block=trial.block,
        attempt=number,
        outcome=report.outcome or "error",
        why="; ".join(filter(None, (report.why, *left))) or None,
        phase=None if report.outcome == "ok" else report.phase,
        samples=tuple(report.samples),
        started=started.isoformat(timespec="milliseconds"),
        duration_ns=duration,
        version=None,
        settings=None,
        caveats=(),
        resources={**report.resources, "peak_anonymous_bytes": peak_bytes or None},
        output=printed,
        loop=report.loop,
        absent=report.absent,
        facts=report.facts,
        stage=trial.stage,
        rate=trial.rate,
        spent_ns=report.spent_ns,
        strain=suffered,
    )
    if (engine := report.engine) is None:
        return attempt
    return replace(
        attempt, version=engine.version, settings=engine.settings, tier=engine.tier, caveats=engine.caveats
    )


def _report_trial(
    plan: Plan, cell: Cell, trial: Trial, home: Path, context: TrialContext, report: TrialReport
) -> tuple[int, str | None, list[str]]:
    """Runs the trial and fills its report. Returns the peak of anonymous memory in bytes, the output of a failed
    trial, and a line for each store that stays on a user's own server."""
    printed = None
    peak_bytes = 0
    output = home.with_suffix(OUTPUT)
    request: TrialRequest | None = None
    left: list[str] = []
    python = plan.python(cell)
    try:
        home.mkdir()
        request = _request_trial(plan, cell, trial, home, context)
        peak_bytes = _run_worker(plan, request, python, context, report)
        if report.outcome != "ok":
            printed = _tail(output, report)
    except OSError as error:
        if error.errno in SCARCE and not report.begun:
            # Not the engine's fault; it would hit every trial.
            raise
        # The engine may have removed the run's own directory, for example.
        report.fail(error)
    finally:
        try:
            if request is not None:
                refused = report.outcome == "refused" or report.unavailable
                left = _remove_stores(request, refused, python, context.pools, plan.secrets)
            for line in left:
                context.warn(line)
        finally:
            _remove_home(home, output)
    return peak_bytes, printed, left


def _run_worker(plan: Plan, request: TrialRequest, python: Python, context: TrialContext, report: TrialReport) -> int:
    """Runs the trial in a worker. Returns the worker's peak of anonymous memory, in bytes."""
    home = Path(request.home)
    pools = context.pools
    try:
        pools.start_pool(python)
        with (
            nullcontext() if plan.confine is None else create_group(plan.confine, home.with_suffix(GROUP)) as group,
            nothing_left(),
            pools.worker(python, home, home.with_suffix(OUTPUT), request, group.add if group else int) as (
                process,
                pipe,
            ),
            closing(WorkerChannel(pipe, report.began_ns, report.clean)) as channel,
        ):
            watch = Watch(process.pid, context.limit, monotonic() + plan.timeout)
            verdict = _listen(process, channel, watch, report, plan.timeout, request.clients)
            status = process.wait()
            killed = group is not None and group.killed
    except (WorkerStartError, CannotConfine) as error:
        report.outcome = "crash"
        report.why = report.clean_text(str(error))
        return 0
    report.conclude(verdict, status, plan, context.limit)
    if killed and report.outcome == "crash":
        most = f"{(plan.confine or 0) / (1 << 30):.2f} GiB"
        report.outcome, report.why = "out-of-memory", f"killed by the kernel: confined to {most} of memory"
    return watch.peak_bytes


def _request_trial(plan: Plan, cell: Cell, trial: Trial, home: Path, context: TrialContext) -> TrialRequest:
    rows = [other.options for other in plan.cells if other.engine == cell.engine]
    return TrialRequest(
        suite=cell.suite,
        definition=plan.declared.get("definition"),
        engine=cell.engine,
        options=plan.options(cell),
        read_back=tuple(set_option.names_in(rows)),
        tier=cell.tier,
        clients=int(cell.params["clients"]),
        params={name: value for name, value in cell.params.items() if name not in GENERAL},
        phases=plan.phases,
        seed=plan.seed,
        pace=plan.pace(cell, trial),
        home=str(home),
        sealed=str(context.datasets.path(trial.cell)),
        thorough=trial.cell not in context.checked,
        load_from=None if cell.floor else plan.load_from,
        profile=trial.profiled,
    )


def _listen(
    process: WorkerProcess,
    channel: WorkerChannel,
    watch: Watch,
    report: TrialReport,
    timeout: float,
    clients: int = 1,
) -> str | None:
    """Reads the worker's events until it ends. Returns why the worker was killed; None if it was not."""
    ended, trial = False, watch.deadline
    while not channel.over:
        try:
            messages = channel.read(0 if ended else INTERVAL)
            for message in messages or ():
                report.add(message)
        except ProtocolError as error:
            end(process)
            return str(error)
        except ClockMismatch as error:
            end(process)
            # Discard earlier samples too: we can't tell when the clock went wrong.
            report.samples.clear()
            return f"{WRONG_CLOCK}{error}"
        if messages is None:
            if ended:
                # A process that the worker left running may hold the pipe open.
                return None
            # Read once more: the worker may have written between the read and the poll.
            ended = process.poll() is not None
        watch.deadline = report.deadline(trial, timeout)
        if verdict := watch.verdict():
            if verdict == "timeout" and clients > 1:
                _ask_for_late_clients(process, channel, report)
            end(process)
            return verdict
    # The pipe is closed, but an engine may delay the interpreter's exit.
    try:
        if report.outcome:
            longest = CLOSING_TIME
        else:
            longest = CLOSED_TIME
        process.wait(min(longest, max(watch.deadline - monotonic(), 0.1)))
    except psutil.TimeoutExpired:
        end(process)
        if report.outcome:
            return "timeout"
        return CLOSED
    return None


def _ask_for_late_clients(process: WorkerProcess, channel: WorkerChannel, report: TrialReport) -> None:
    """Adds to the report what late clients wait for, if the worker can tell within a second. The worker may end."""
    until = monotonic() + ANSWER_TIME
    with suppress(psutil.Error, ProtocolError, ClockMismatch):
        process.send_signal(LATE_SIGNAL)
        while report.late is None and not channel.over and monotonic() < until:
            for message in channel.read(INTERVAL) or ():
                report.add(message)


def _tail(output: Path, report: TrialReport) -> str | None:
    """Returns the end of a trial's output; None if the engine has removed the file."""
    with suppress(OSError), output.open("rb") as printed:
        printed.seek(max(printed.seek(0, os.SEEK_END) - 2 * OUTPUT_KEPT, 0))
        text = printed.read(2 * OUTPUT_KEPT).decode(errors="replace")
        # Masked before it is cut, because half of a secret would not match.
        return sanitize(mask_secrets(text, report.secrets)[-OUTPUT_KEPT:])
    return None


def _remove_home(home: Path, output: Path) -> None:
    """Removes the trial's files. Files that can't be removed are reported when the run's own directory is removed."""
    unmount(home)
    with suppress(OSError):
        if not home.is_symlink():
            leftover_processes.clear(home)
    remove(home)
    with suppress(OSError):
        output.unlink()


# -- stores that a trial left on a user's own server ---------------------------------------------------------------

PATIENCE_SECONDS = 60.0
REMOVAL_OUTPUT = ".removal"


def _remove_stores(
    request: TrialRequest, refused: bool, python: Python, pools: WorkerPools, secrets: tuple[str, ...]
) -> list[str]:
    """Removes the stores of a trial whose worker was killed or lost its connection, in a second worker. Returns a
    line for each store that stays, with the command that removes it. `refused` says whether the server refused the
    trial; if it refuses again, there is no store."""
    if not (names := namespace.stores(Path(request.home))):
        return []
    url = str(request.options.get(URL, ""))
    # Commands with which a user can remove the stores that are left, and the reasons. Without an address, the worker
    # determines whether the server is the user's. If it is Dyno's own, it has ended.
    commands: dict[str, str] = dict.fromkeys(names if url else (), "")
    reasons = dict[str, str]()
    unreachable = False
    why = "the process that should remove it ended early"
    try:
        for event in _remove_in_worker(request, python, pools):
            if isinstance(event, StoreFound):
                commands[event.name] = event.command
            elif isinstance(event, StoreLeft):
                reasons[event.name] = event.why
                unreachable = event.unreachable
            elif isinstance(event, StoreRemoved):
                commands.pop(event.name, None)
            elif isinstance(event, TrialEnded) and event.why:
                why = event.why
    except (WorkerStartError, ProtocolError, ClockMismatch, OSError) as error:
        why = str(error)
    except KeyboardInterrupt:
        why = "interrupted"
    if refused and unreachable:
        return []
    lines = []
    for name, command in commands.items():
        reason = " ".join(reasons.get(name, why).split())
        remedy = ""
        if command:
            remedy = f"; to remove it: {command}"
        # A refused trial may have ended before it created a store.
        verb = "stays"
        if refused:
            verb = "may stay"
        line = f"{name} {verb} on {mask_password(url) or 'your server'} ({reason}){remedy}"
        lines.append(sanitize(mask_secrets(line, secrets), keep=""))
    return lines


def _remove_in_worker(request: TrialRequest, python: Python, pools: WorkerPools) -> Iterator[WorkerEvent]:
    """Runs the worker and yields its events. Raises TimeoutError after PATIENCE_SECONDS."""
    home = Path(request.home)
    output = home.with_suffix(REMOVAL_OUTPUT)
    deadline = monotonic() + PATIENCE_SECONDS
    began = monotonic_ns()
    pools.start_pool(python)
    with (
        pools.worker(python, home, output, structs.replace(request, remove=True)) as (_, pipe),
        closing(WorkerChannel(pipe, began)) as channel,
    ):
        while not channel.over:
            left = deadline - monotonic()
            if left < 0:
                raise TimeoutError(f"not removed after {PATIENCE_SECONDS:g} s")
            for message in channel.read(left) or ():
                yield message.event
