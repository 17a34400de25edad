"""Loads a server from other machines: a phase whose clients run in a process on each machine of a scheduler.

Client c of n runs on machine c modulo m. Inputs come from the seed and the client's number, so each machine builds
its own, before the phase, and checks the answers after it. No message crosses the network in between. What clients
have written is reported home, where `verify` checks the whole store.

Each latency is measured by one machine's clock. The offsets between clocks align only the starts.
"""

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from time import monotonic_ns
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import dyno
from dyno.contracts.histogram import Recorder, quantile
from dyno.contracts.model import Absent, Phase, Refused, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.roles import RemoteWorkload
from dyno.contracts.suite import Job, Workload
from dyno.machines import tasks
from dyno.machines.scheduler import Machine, Offset, Scheduler
from dyno.measure.schedule import Share
from dyno.measure.slices import Announce
from dyno.measure.tally import Tally
from dyno.servers import namespace
from dyno.servers.user_server import URL

LEAD_NS = 1_000_000_000
"""Time from the moment when all machines are ready to the start, in which the start's message arrives."""


class RemoteLoad:
    """Runs phases on the machines of the scheduler at `address`. `message` describes the trial: see
    `dyno.runner.trial`. The call has the arguments of `dyno.measure.clients.run_phase`. It raises MachineLost."""

    def __init__(self, address: str, message: Mapping[str, Any], job: Job) -> None:
        self._address, self._message, self._job = address, message, job

    def __call__(
        self,
        workload: Workload,
        phase: Phase,
        clients: int,
        how: str,
        pace: Pace,
        ready: Callable[[], object],
        server: Sequence[int],
        announce: Announce,
    ) -> Tally:
        if not isinstance(workload, RemoteWorkload):
            raise Refused(f"suite {self._message['suite']} can't be loaded from other machines")
        state = workload.describe_store()
        # Each process opens the engine by itself.
        workload.release()
        with Scheduler(self._address) as scheduler:
            machines = scheduler.machines[:clients]
            token = os.urandom(8).hex()
            shares = {machine: Share(clients, at, len(machines)) for at, machine in enumerate(machines)}
            jobs = {machine: (token, self._job_for(share, phase, pace, state)) for machine, share in shares.items()}
            try:
                prepared = {
                    machine: _checked(machine, answer, "ready")[0]
                    for machine, answer in scheduler.each(tasks.prepare, jobs).items()
                }
                offsets = {machine: scheduler.offset(machine) for machine in machines}
                ready()
                lead = LEAD_NS + max(offset.uncertainty_ns for offset in offsets.values())
                start = monotonic_ns() + lead
                starts = {machine: (token, start + offset.ns) for machine, offset in offsets.items()}
                ended = {
                    machine: _checked(machine, answer, "done")
                    for machine, answer in scheduler.each(tasks.run, starts).items()
                }
                after = {machine: scheduler.offset(machine) for machine in machines}
            except BaseException:
                scheduler.tell(machines, tasks.end, token)
                raise
        described = {}
        for machine in machines:
            tally, written = ended[machine]
            workload.learn_writes(state, written)
            tally.by_machine = {machine.host: _copy(tally.latency)}
            described[machine.host] = _described(
                tally, shares[machine], prepared[machine], offsets[machine], after[machine]
            )
        whole: Tally = ended[machines[0]][0]
        processes = sum(ended[machine][0].processes for machine in machines)
        for machine in machines[1:]:
            whole.merge(ended[machine][0])
        whole.processes, whole.machines = processes, described
        return whole

    def _job_for(self, share: Share, phase: Phase, pace: Pace, state: Any) -> bytes:
        job, endpoint = self._job, None
        server: Any = job.server
        reached = None
        if server is not None and server.own:
            reached = server.reached()
            endpoint = reached["address"]["host"], int(reached["address"]["port"])
        elif (url := urlsplit(str(job.options.get(URL, "")))).hostname and url.port:
            endpoint = url.hostname, url.port
        return pickle.dumps(
            {
                "dyno": dyno.__version__,
                "message": dict(self._message),
                "server": reached,
                "endpoint": endpoint,
                "stores": {
                    str(home.relative_to(job.home)): name for name, home in namespace.stores(job.home).items()
                },
                "state": state,
                "phase": phase.name,
                "pace": asdict(pace),
                "share": (share.clients, share.machine, share.machines),
            }
        )


def _checked(machine: Machine, answer: bytes, expected: str) -> tuple[Any, ...]:
    """Returns what follows the kind of a child's answer. Raises what the child has raised."""
    kind, *rest = pickle.loads(answer)
    if kind == expected:
        return tuple(rest)
    text = f"{machine.host}: {rest[0]}"
    known = {error.__name__: error for error in (Refused, Absent, Wrong, MemoryError)}
    raise known.get(kind, RuntimeError)(text)


def _copy(recorder: Recorder) -> Recorder:
    copied = Recorder()
    copied.merge(recorder)
    return copied


def _p99(recorder: Recorder | None) -> int | None:
    if recorder is None:
        return None
    filled = np.flatnonzero(recorder.counts)
    return quantile(filled, recorder.counts[filled], 99.0) if len(filled) else None


def _described(
    tally: Tally, share: Share, prepared: Mapping[str, Any], before: Offset, after: Offset
) -> Mapping[str, Any]:
    """Returns what the sample keeps of one machine: see `dyno.contracts.decoded_types.Machine`."""
    used = (tally.usage.user_ns, tally.usage.system_ns)
    return {
        "clients": share.own,
        "processes": tally.processes,
        "cores": prepared["cores"],
        "operations": tally.operations,
        "elapsed_ns": tally.elapsed_ns,
        "cpu_ns": None if None in used else sum(part or 0 for part in used),
        "late_p99_ns": _p99(tally.late),
        "response_p99_ns": _p99(tally.response),
        "round_trip_ns": prepared["round_trip_ns"],
        "offset_ns": before.ns,
        "uncertainty_ns": before.uncertainty_ns,
        # The clocks may have moved by less than the uncertainty of both offsets.
        "skew_ns": max(abs(after.ns - before.ns) - before.uncertainty_ns - after.uncertainty_ns, 0),
    }
