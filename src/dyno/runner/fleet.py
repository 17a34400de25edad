"""A plan on several machines: each worker of a scheduler of Dask executes the whole plan, and this machine collects
the run files.

A run file is only appended to, so it is fetched from where this machine has it. A machine that disappears leaves what
it has finished. When it is back, it gets that and continues.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from dyno.contracts.model import UsageError
from dyno.contracts.settings import SIZE
from dyno.machines import tasks
from dyno.machines.scheduler import Future, Machine, MachineLost, Scheduler
from dyno.options import OPTIONS, RunRequest
from dyno.runner.plan_file import as_toml

FETCH_SECONDS = 1.0
ABSENT_SECONDS = 600.0
"""A machine that is away for so long is given up."""
ALREADY = ("load_from", "plain_tcp")
"""Options that are for this machine only."""


def plan_text(request: RunRequest, definition: Mapping[str, object] | None) -> str:
    """Returns a plan file of the request. `definition`: that of the suite, without names of files."""
    options = {each.key: getattr(request, each.name) for each in OPTIONS if each.name not in ALREADY}
    for each in OPTIONS:
        if each.kind is SIZE and options.get(each.key) is not None:
            # A number in a plan file is in GiB.
            options[each.key] = f"{options[each.key]}B"
    given = {key: value for key, value in options.items() if value not in (None, [], (), {})}
    if definition is not None:
        given[request.suite] = definition
    return as_toml({"suite": request.suite, **given})


@dataclass
class _Runner:
    """One machine of the fleet."""

    file: Path
    future: Future[tuple[int, str, bytes]] | None = None
    machine: Machine | None = None
    away_since: float | None = None
    status: int | None = None


def run_fleet(address: str, plan: str, output: Path, resume: bool, tell: Callable[[str], object]) -> dict[str, int]:
    """Executes a plan file's text on every machine of the scheduler. The run file of a machine is `output` with the
    machine's name before its suffix. `tell` receives lines about progress. Returns the exit status of each machine's
    run, by its host: -1 for a machine that did not come back. Raises Refused and UsageError."""
    with Scheduler(address) as scheduler:
        runners = {machine.host: _Runner(_file(output, machine.host)) for machine in scheduler.machines}
        if not resume and (there := next((each.file for each in runners.values() if each.file.exists()), None)):
            raise UsageError(f"{there} exists: choose another name by -o, or continue by --resume")
        try:
            while any(each.status is None for each in runners.values()):
                _step(scheduler, runners, plan, tell)
                sleep(FETCH_SECONDS)
        finally:
            for each in runners.values():
                if each.future is not None:
                    each.future.cancel()
    return {host: -1 if each.status is None else each.status for host, each in runners.items()}


def _file(output: Path, host: str) -> Path:
    name = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in host)
    return output.with_name(f"{output.stem}.{name}{output.suffix or '.json'}")


def _step(scheduler: Scheduler, runners: Mapping[str, _Runner], plan: str, tell: Callable[[str], object]) -> None:
    """Starts the plan on machines that are there, fetches what is new, and notes which machines have ended or
    disappeared."""
    present = {machine.host: machine for machine in scheduler.list_present()}
    for host, runner in runners.items():
        if runner.status is not None:
            continue
        machine = present.get(host)
        if machine is None or (runner.machine is not None and runner.machine != machine):
            _leave(host, runner, tell)
        if machine is None:
            if runner.away_since is not None and monotonic() - runner.away_since > ABSENT_SECONDS:
                runner.status = -1
            continue
        if runner.future is None:
            _cut(runner.file)
            so_far = b""
            if runner.file.exists():
                so_far = runner.file.read_bytes()
            runner.machine, runner.away_since = machine, None
            runner.future = scheduler.submit(machine, tasks.run_plan, plan, so_far)
            tell(f"{host}: {'continues' if so_far else 'begins'}")
        try:
            if not runner.future.done():
                _fetch(scheduler, machine, runner.file)
            else:
                runner.status, last, content = scheduler.answer(machine, runner.future)
                if content:
                    runner.file.write_bytes(content)
                tell(f"{host}: ended with status {runner.status}{f': {last}' if last and runner.status else ''}")
        except MachineLost:
            _leave(host, runner, tell)


def _leave(host: str, runner: _Runner, tell: Callable[[str], object]) -> None:
    if runner.future is not None:
        tell(f"{host}: lost; {runner.file} has what it finished")
        with suppress(Exception):
            runner.future.cancel()
    runner.future = runner.machine = None
    runner.away_since = runner.away_since or monotonic()


def _fetch(scheduler: Scheduler, machine: Machine, file: Path) -> None:
    """Appends what the machine's run file has and this one lacks."""
    while piece := scheduler.ask(machine, tasks.read_run, file.stat().st_size if file.exists() else 0):
        with file.open("ab") as kept:
            kept.write(piece)


def _cut(file: Path) -> None:
    """Removes an incomplete last line."""
    if file.exists():
        content = file.read_bytes()
        file.write_bytes(content[: content.rfind(b"\n") + 1])
