"""Loads a server from other machines: a phase whose clients run in a process on each machine of a scheduler.

Client c of n runs on machine c modulo m. Inputs come from the seed and the client's number, so each machine builds
its own, before the phase, and checks the answers after it. No message crosses the network in between. What clients
have written is reported home, where `verify` checks the whole store.

Each latency is measured by one machine's clock. The offsets between clocks align only the starts.
"""

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import TypeVar, cast
from urllib.parse import urlsplit

import numpy as np

import dyno
from dyno.contracts.decoded_types import Machine as MachineLoad
from dyno.contracts.histogram import Recorder, quantile
from dyno.contracts.model import Absent, Phase, Refused, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.roles import RemoteWorkload
from dyno.contracts.suite import Job, Workload
from dyno.machines import tasks
from dyno.machines.scheduler import Machine, Offset, Scheduler
from dyno.measure.messages import (
    ClientsDone,
    ClientsFailed,
    ClientsReady,
    RemotePhase,
    TrialRequest,
    decode_answer,
    encode,
)
from dyno.measure.position import Share
from dyno.measure.slices import Announce
from dyno.measure.tally import Tally
from dyno.servers import namespace
from dyno.servers.listen import JoinableServer, ServerAddress
from dyno.servers.user_server import URL

LEAD_NS = 1_000_000_000
"""Time from the moment when all machines are ready to the start, in which the start's message arrives."""


class RemoteLoad:
    """Runs phases of the requested trial on the machines of its scheduler. The call has the arguments of
    `dyno.measure.clients.run_phase`. It raises MachineLost."""

    def __init__(self, request: TrialRequest, job: Job) -> None:
        self._request = request
        self._job = job

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
        publish: object,
    ) -> Tally:
        if not isinstance(workload, RemoteWorkload):
            raise Refused(f"suite {self._request.suite} can't be loaded from other machines")
        state = workload.describe_store()
        # Each process opens the engine by itself.
        workload.release()
        with Scheduler(str(self._request.load_from)) as scheduler:
            machines = scheduler.machines[:clients]
            shares = {machine: Share(clients, at, len(machines)) for at, machine in enumerate(machines)}
            requests = {machine: self._request_phase(share, phase, pace, state) for machine, share in shares.items()}
            results = _run_clients(scheduler, requests, ready)
        for result in results.values():
            workload.learn_writes(state, result.state)
        return _merge(shares, results)

    def _request_phase(self, share: Share, phase: Phase, pace: Pace, state: object) -> bytes:
        job = self._job
        endpoint: tuple[str, int] | None = None
        reached: ServerAddress | None = None
        if job.server is not None and job.server.own:
            reached = cast(JoinableServer, job.server).reached()
            endpoint = str(reached.address["host"]), int(reached.address["port"])
        elif (url := urlsplit(str(job.options.get(URL, "")))).hostname and url.port:
            endpoint = url.hostname, url.port
        stores = {str(home.relative_to(job.home)): name for name, home in namespace.stores(job.home).items()}
        request = RemotePhase(
            dyno=dyno.__version__,
            trial=self._request,
            server=reached,
            endpoint=endpoint,
            stores=stores,
            state=pickle.dumps(state),
            phase=phase.name,
            pace=pace,
            share=share,
        )
        return encode(request)


@dataclass(frozen=True)
class _MachineResult:
    ready: ClientsReady
    tally: Tally
    state: object
    before: Offset
    after: Offset


def _run_clients(
    scheduler: Scheduler, requests: Mapping[Machine, bytes], ready: Callable[[], object]
) -> dict[Machine, _MachineResult]:
    """Runs the clients of all machines, which start together. `ready` is called just before."""
    token = os.urandom(8).hex()
    try:
        jobs = {machine: (token, request) for machine, request in requests.items()}
        prepared = scheduler.call_on_each(tasks.prepare, jobs)
        readiness = {machine: _check_answer(machine, answer, ClientsReady) for machine, answer in prepared.items()}
        before = {machine: scheduler.offset(machine) for machine in requests}
        ready()
        lead = LEAD_NS + max(offset.uncertainty_ns for offset in before.values())
        start = monotonic_ns() + lead
        starts = {machine: (token, start + offset.ns) for machine, offset in before.items()}
        ended = scheduler.call_on_each(tasks.run, starts)
        done = {machine: _check_answer(machine, answer, ClientsDone) for machine, answer in ended.items()}
        after = {machine: scheduler.offset(machine) for machine in requests}
    except BaseException:
        scheduler.tell(requests, tasks.end, token)
        raise
    return {
        machine: _MachineResult(
            readiness[machine], pickle.loads(each.tally), pickle.loads(each.state), before[machine], after[machine]
        )
        for machine, each in done.items()
    }


Expected = TypeVar("Expected", ClientsReady, ClientsDone)


def _check_answer(machine: Machine, answer: bytes, expected: type[Expected]) -> Expected:
    """Returns the child's answer if it is of the expected type. Raises what the child has raised."""
    decoded = decode_answer(answer)
    if isinstance(decoded, expected):
        return decoded
    if not isinstance(decoded, ClientsFailed):
        raise RuntimeError(f"{machine.host}: unexpected answer {type(decoded).__name__}")
    known = {error.__name__: error for error in (Refused, Absent, Wrong, MemoryError)}
    raise known.get(decoded.error, RuntimeError)(f"{machine.host}: {decoded.why}")


def _merge(shares: Mapping[Machine, Share], results: Mapping[Machine, _MachineResult]) -> Tally:
    """Returns the tally of all machines, with the description of each."""
    tallies = [result.tally for result in results.values()]
    described = {}
    for machine, result in results.items():
        by_machine = Recorder()
        by_machine.merge(result.tally.latency)
        result.tally.by_machine = {machine.host: by_machine}
        described[machine.host] = _describe_machine(shares[machine], result)
    processes = sum(tally.processes for tally in tallies)
    whole = tallies[0]
    for tally in tallies[1:]:
        whole.merge(tally)
    whole.processes = processes
    whole.machines = described
    return whole


def _p99(recorder: Recorder | None) -> int | None:
    if recorder is None:
        return None
    filled = np.flatnonzero(recorder.counts)
    if len(filled):
        return quantile(filled, recorder.counts[filled], 99.0)
    return None


def _describe_machine(share: Share, result: _MachineResult) -> MachineLoad:
    """Returns what the sample keeps of one machine: see `dyno.contracts.decoded_types.Machine`."""
    tally = result.tally
    before = result.before
    after = result.after
    used = (tally.usage.user_ns, tally.usage.system_ns)
    return {
        "clients": share.own,
        "processes": tally.processes,
        "cores": result.ready.cores,
        "operations": tally.operations,
        "elapsed_ns": tally.elapsed_ns,
        "cpu_ns": None if None in used else sum(part or 0 for part in used),
        "late_p99_ns": _p99(tally.late),
        "response_p99_ns": _p99(tally.response),
        "round_trip_ns": result.ready.round_trip_ns,
        "offset_ns": before.ns,
        "uncertainty_ns": before.uncertainty_ns,
        # The clocks may have moved by less than the uncertainty of both offsets.
        "skew_ns": max(abs(after.ns - before.ns) - before.uncertainty_ns - after.uncertainty_ns, 0),
    }
