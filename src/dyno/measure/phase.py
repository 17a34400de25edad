"""One phase of a trial, from the prepared store to its sample: what comes before the clock and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dyno.contracts.declarations import checked_values
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Phase, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.sample import Sample
from dyno.contracts.suite import Job, Workload
from dyno.host.filesystem import size_on_disk
from dyno.host.process import running
from dyno.host.procfs import difference
from dyno.host.usage import Usage, device, of_tree, own
from dyno.measure.checks import Announce, Checks
from dyno.measure.clients import run_phase
from dyno.measure.settle import rest, settle
from dyno.measure.stopwatch import Stopwatch
from dyno.measure.tally import Tally
from dyno.measure.temperature import chill, reached


class ServerDied(Exception):
    """A process that serves the engine ended while a phase was measured."""


def sampled(
    workload: Workload, phase: Phase, job: Job, pace: Pace, spent: Stopwatch, announce: Announce = lambda: None
) -> Sample:
    """Measures a phase, and says where its time went. Raises Absent where it makes no sense for the engine, and
    ServerDied. `announce` is called before checks that may take long."""
    rest(serving(job), job.home)
    # A floor keeps nothing that could be cold, and prices the harness all the same.
    cold = phase.temperature == "cold" and not job.spec.floor
    residency = chill(workload, job) if cold else None
    # After that: stopped and started, the server has other processes.
    server = serving(job)
    counters = _Counters(server, workload.place() or job.home)
    spent.on("rest")

    def ready() -> None:
        spent.on("hot")
        counters.read()

    tally = run_phase(workload, phase, job.clients, job.spec.clients, pace, ready, server, announce)
    # A node that the workload itself has killed is none of the server's processes any more.
    if not all(running(pid) for pid in server if pid in serving(job)):
        # What the clients found then is no answer of the engine's, and no reason to void it.
        raise ServerDied("its server ended in the middle of the phase")
    served, moved, mine = counters.served(), counters.moved(), own()
    spent.on("phase")
    # Opened here, where the clients were processes of their own: its background threads go on with their work.
    engine = workload.engine()
    settled = settle(server) if phase.writes else None
    wrote = tally.usage.written_bytes, (own() - mine).written_bytes, counters.served().written_bytes
    announce()
    void = tally.void or _verified(workload, phase, tally)
    spent.check_ns += tally.check_ns
    return Sample(
        **_counted(phase, job, tally, void),
        temperature=reached(phase, tally, residency, served),
        residency=residency,
        client=asdict(tally.usage),
        server=asdict(served) if server else None,
        device=moved,
        bytes_on_disk=size_on_disk(engine.files()),
        settled=settled,
        written_bytes=None if None in wrote else sum(part or 0 for part in wrote),
        payload_bytes=workload.payload_bytes(phase, tally.items),
        facts={} if void else checked_values({**tally.facts, **workload.facts(phase)}, f"phase {phase.name}: facts"),
    )


def serving(job: Job) -> list[int]:
    """The processes that serve the engine; none where it has no server, or one that is the user's own."""
    return [] if job.server is None else list(job.server.pids())


class _Counters:
    """What others used: read when the clients start, so that an untimed round before is in none of it."""

    def __init__(self, server: list[int], place: Path) -> None:
        self._server, self._place = server, place
        self.read()

    def read(self) -> None:
        self._served, self._device = of_tree(self._server), device(self._place)

    def served(self) -> Usage:
        """By the server's processes, since then."""
        return of_tree(self._server) - self._served

    def moved(self) -> dict[str, int | None]:
        """To and from the device, by anybody, since then."""
        now, then = device(self._place), self._device
        moved = {
            "read_bytes": difference(then.read_bytes, now.read_bytes),
            "written_bytes": difference(then.written_bytes, now.written_bytes),
        }
        # The counters of a device that came back begin again.
        return {name: None if gain is None or gain < 0 else gain for name, gain in moved.items()}


def _verified(workload: Workload, phase: Phase, tally: Tally) -> str | None:
    """Why the store is not as it must be after the phase; None where it is."""
    try:
        Checks(tally, lambda: None).run(workload.verify, phase)
    except Wrong as wrong:
        return str(wrong)
    return None


def _counted(phase: Phase, job: Job, tally: Tally, void: str | None) -> Mapping[str, Any]:
    """What the loops saw."""
    return {
        "phase": phase.name,
        "unit": phase.unit,
        "operations": tally.operations,
        "items": tally.items,
        "elapsed_ns": tally.elapsed_ns,
        "busy_ns": tally.busy_ns,
        "errors": tally.errors,
        "first_error": tally.first_error,
        "ended_by": tally.ended_by,
        "checked": tally.checked,
        "clients": job.clients,
        "threads": job.clients > 1 and job.spec.clients == "threads",
        "wall_ns": tally.wall_ns,
        "pause_cpu_ns": tally.pause_cpu_ns,
        "due": tally.due,
        "bytes": tally.bytes,
        "reported_by": tally.reported_by,
        "bulk": tally.bulk,
        "histogram": tally.latency.encode(),
        "slowest_at_ns": None if tally.slowest is None else tally.slowest[1],
        "by_kind": {kind: recorder.encode() for kind, recorder in tally.by_kind.items()},
        "by_part": {part: recorder.encode() for part, recorder in tally.by_part.items()},
        "response": _encoded(tally.response),
        "late": _encoded(tally.late),
        "series": tally.points or tally.series.points(),
        "void": void,
    }


def _encoded(recorder: Recorder | None) -> bytes | None:
    return None if recorder is None else recorder.encode()
