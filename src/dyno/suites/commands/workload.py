"""A trial of the suite `commands`, and the conformance checks of its port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from dyno.contracts.equality import expect, shorten
from dyno.contracts.model import Fact, Phase, Refused, Tier, Wrong
from dyno.contracts.roles import FilesWorkload
from dyno.contracts.suite import Job, Opened, Report, by_name
from dyno.contracts.value_types import JsonMapping
from dyno.host.process import users_directory
from dyno.suites._shared.store import ToolWorkload
from dyno.suites.commands import COLD, DIRECTORY, VARIABLES
from dyno.suites.commands.port import Command, Conditions, Ended

PIECE = 1 << 20
MOST = 10**9
COUNTED = ("core_wait_ns", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches")
"""Counters of a run that are recorded of the client."""


def runs(opened: Opened[Command], tier: Tier | None) -> None:
    """A program that does nothing ends well, writes nothing, and runs as often as it is told to."""
    with opened("runs", Path("/"), {}) as port:
        ended = port.run(Conditions(most=3, limit_ns=10**12, warmups=1, settles=False, same=True))
    expect(len(ended.runs), 3, "number of runs")
    expect(ended.differing, 0, "runs with another output")
    for run in ended.runs:
        expect(run.status, 0, "exit status")
        if run.elapsed_ns <= 0 or any(value is not None and value < 0 for value in run) or not run.peak_bytes:
            raise Wrong(f"a run can't have had these figures: {run}")
    if ended.output is None or ended.output.read_bytes():
        raise Wrong("the output of a program that writes nothing is not empty")


CHECKS = by_name(runs)


class CommandsWorkload(ToolWorkload, FilesWorkload):
    def __init__(self, job: Job, definition: JsonMapping) -> None:
        super().__init__(job)
        self._directory = users_directory() / definition[DIRECTORY]
        self._values = {name: job.params[name] for name in definition[VARIABLES]}
        self._files = [Path(self._directory, each) for each in str(job.params["evicted"]).split(":") if each]
        self._ended: Ended | None = None

    def port_arguments(self) -> tuple[object, ...]:
        return self._directory, self._values

    def prepare(self, phase: Phase) -> None:
        self.begin()
        if phase.name == COLD and not self._job.spec.floor:
            if not self._files:
                raise Refused("a cold run needs the files that shall not be cached: -p evicted=PATH:PATH")
            for path in self._files:
                if not path.exists():
                    raise Refused(f"evicted: there is no {path}")

    def files(self) -> Iterable[Path]:
        for path in self._files:
            yield from sorted(path.rglob("*")) if path.is_dir() else [path]

    def run(self, port: Command, phase: Phase, limit_ns: int) -> Report:
        params = self._job.params
        if phase.name == COLD:
            most = 1
            warmups = 0
        else:
            most = int(params["repetitions"]) or MOST
            warmups = int(params["untimed"])
        settles = phase.name != COLD and not warmups
        ended = port.run(Conditions(most, limit_ns, warmups, settles, bool(params["same_output"])))
        self._ended = ended
        spans = [run.elapsed_ns for run in ended.runs]
        users, systems = [run.user_ns for run in ended.runs], [run.system_ns for run in ended.runs]
        codes = [run.status for run in ended.runs]
        return Report(
            tool="Dyno",
            own=True,
            operations=len(spans),
            items=len(spans),
            elapsed_ns=sum(spans),
            latencies=[(span, 1) for span in spans],
            by_part={
                name: [(time, 1) for time in times]
                for name, times in (("user-time", users), ("system-time", systems))
            },
            cpu_ns=(sum(users), sum(systems)),
            used={name: _sum([getattr(run, name) for run in ended.runs]) for name in COUNTED},
            peak_bytes=max(run.peak_bytes for run in ended.runs),
            facts={"exit_statuses": " ".join(f"{codes.count(code)}x{code}" for code in sorted(set(codes)))},
        )

    def check(self, phase: Phase, report: Report) -> int:
        assert self._ended is not None
        return super().check(phase, report) + check_ends(self._ended)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._ended is None or self._job.spec.floor:
            return {}
        return _output(self._ended)


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return sum(known)


def check_ends(ended: Ended) -> int:
    """Returns the number of checked runs. Raises Wrong for a program that failed, or that writes something else each
    time."""
    last = ended.runs[-1].status
    if last and ended.allowed is not None and last not in ended.allowed:
        if last > 0:
            how = f"exit status {last}"
        else:
            how = f"killed by signal {-last}"
        raise Wrong(f"{how}: {shorten(ended.said)}" if ended.said else how)
    if ended.differing:
        raise Wrong(f"{ended.differing} of {len(ended.runs)} runs did not write what the first wrote")
    return len(ended.runs)


def _output(ended: Ended) -> dict[str, Fact]:
    """The facts by which the outputs of several programs are compared: see `stats.agreement`."""
    if ended.output is None:
        return {}
    digest = blake2b(digest_size=16)
    size = 0
    begin = b""
    with ended.output.open("rb") as file:
        while piece := file.read(PIECE):
            begin = begin or piece[:PIECE]
            digest.update(piece)
            size += len(piece)
    shown = shorten(begin[:200].decode(errors="replace"))
    return {
        "answers_book": "standard output",
        "answers_group": digest.hexdigest(),
        "answers_differ": f"it writes {size:,} bytes, {shown}",
    }


WORKLOAD = CommandsWorkload
