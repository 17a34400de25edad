"""Measures one phase of a trial, from the prepared store to its sample."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from time import monotonic_ns
from typing import Any

from dyno.contracts.declarations import checked_values
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Phase, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Job, Workload
from dyno.fields import COUNTED, FIELDS, HISTOGRAMS, Sample
from dyno.host.filesystem import size_on_disk
from dyno.host.process import running
from dyno.host.procfs import difference
from dyno.host.usage import Usage, device, of_tree, own
from dyno.measure.clients import run_phase
from dyno.measure.settle import rest, settle
from dyno.measure.slices import Announce, Checks
from dyno.measure.temperature import chill, reached


class ServerDied(Exception):
    """A process of the server ended while a phase was measured."""


class Stopwatch:
    """Measures where the time of a trial goes, as laps that get their names when they end."""

    def __init__(self) -> None:
        self.parts_ns: Counter[str] = Counter()
        self.check_ns = 0
        """Time of checks of answers, between batches and after phases. The laps include it."""
        self._since = monotonic_ns()

    def lap(self, part: str) -> None:
        """Adds the time since the last lap to `part`."""
        now = monotonic_ns()
        self.parts_ns[part] += now - self._since
        self._since = now


def sampled(
    workload: Workload, phase: Phase, job: Job, pace: Pace, spent: Stopwatch, announce: Announce = lambda: None
) -> Sample:
    """Measures a phase and adds its laps to `spent`. Raises Absent if the phase makes no sense for the engine, and
    ServerDied. `announce` is called before checks that may take long."""
    rest(serving(job), job.home)
    # A floor engine stores nothing that could be cold. It is measured without the eviction, for the harness's cost.
    cold = phase.temperature == "cold" and not job.spec.floor
    residency = chill(workload, job) if cold else None
    # Looked up here because a restarted server has other processes.
    server = serving(job)
    counters = _Counters(server, workload.place() or job.home)
    spent.lap("rest")

    def ready() -> None:
        spent.lap("hot")
        counters.read()

    tally = run_phase(workload, phase, job.clients, job.spec.clients, pace, ready, server, announce)
    # A node that the workload has killed is no longer among the server's processes.
    if not all(running(pid) for pid in server if pid in serving(job)):
        # Raised here rather than voiding the phase: wrong answers of a dead server are not the engine's fault.
        raise ServerDied("its server ended in the middle of the phase")
    served, moved, mine = counters.served(), counters.moved(), own()
    spent.lap("phase")
    # If the clients were processes of their own, this opens the engine, and its background threads continue their
    # work.
    engine = workload.engine()
    settled = settle(server) if phase.writes else None
    wrote = tally.usage.written_bytes, (own() - mine).written_bytes, counters.served().written_bytes
    announce()
    if not tally.void and not job.spec.floor:
        try:
            Checks(tally).run(workload.verify, phase)
        except Wrong as wrong:
            tally.void = str(wrong)
    spent.check_ns += tally.check_ns
    measured, where = {name: getattr(tally, name) for name in COUNTED}, f"phase {phase.name}: facts"
    histograms = {each.name: _encoded(getattr(tally, each.tally)) for each in FIELDS if each.name in HISTOGRAMS}
    return Sample(
        **{**measured, **histograms, "void": tally.void},
        phase=phase.name,
        unit=phase.unit,
        clients=job.clients,
        threads=job.clients > 1 and job.spec.clients == "threads",
        load=tally.load if job.server is not None and not phase.reported else None,
        load_processes=tally.processes if job.server is not None and not phase.reported else None,
        pause_cpu_ns=tally.pause_cpu_ns,
        slowest_at_ns=None if tally.slowest is None else tally.slowest[1],
        series=tally.points or tally.series.points(),
        temperature=reached(phase, tally, residency, served),
        residency=residency,
        client=asdict(tally.usage),
        server=asdict(served) if server else None,
        device=moved,
        bytes_on_disk=size_on_disk(engine.files()),
        settled=settled,
        written_bytes=None if None in wrote else sum(part or 0 for part in wrote),
        payload_bytes=workload.payload_bytes(phase, tally.items),
        facts={} if tally.void else checked_values({**tally.facts, **workload.facts(phase)}, where),
    )


def serving(job: Job) -> list[int]:
    """Returns the ids of the server's processes; empty without a server, or with the user's own."""
    return [] if job.server is None else list(job.server.pids())


class _Counters:
    """Counters of the server and the device, read when the clients start, after the untimed round."""

    def __init__(self, server: list[int], place: Path) -> None:
        self._server, self._place = server, place
        self.read()

    def read(self) -> None:
        self._served, self._device = of_tree(self._server), device(self._place)

    def served(self) -> Usage:
        """Returns the resources that the server's processes have used since `read`."""
        return of_tree(self._server) - self._served

    def moved(self) -> dict[str, int | None]:
        """Returns the bytes that all processes have moved to and from the device since `read`."""
        now, then = device(self._place), self._device
        moved = {
            "read_bytes": difference(then.read_bytes, now.read_bytes),
            "written_bytes": difference(then.written_bytes, now.written_bytes),
        }
        # The counters of a device that was detached and attached again restart at 0.
        return {name: None if gain is None or gain < 0 else gain for name, gain in moved.items()}


def _encoded(recorder: Recorder | dict[str, Recorder] | None) -> Any:
    """Encodes a histogram, or a table of histograms by name."""
    if isinstance(recorder, dict):
        return {name: each.encode() for name, each in recorder.items()}
    return None if recorder is None else recorder.encode()
