"""Runs a phase with its clients: one in the worker itself, several as its threads or as processes forked from it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from dyno.contracts.model import Phase
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Workload
from dyno.host.process import die_with_parent
from dyno.host.usage import Usage, cpu_ns, own, with_descendants
from dyno.measure.batch import Barrier, BatchScheduler, ClientGroup, SingleClient, SoloClient
from dyno.measure.checks import Announce
from dyno.measure.driver import measure, uncollected
from dyno.measure.pause_meter import ClientPosition
from dyno.measure.reported import reported
from dyno.measure.tally import Tally

START_TIMEOUT = 120
READY = "ready"


@dataclass
class Ended:
    """What the client processes of this worker have used that have ended. A server that ended is not among them,
    as it is among the children that getrusage(2) tells of.
    """

    user_ns: int = 0
    system_ns: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    major_faults: int = 0
    peak_resident_bytes: int = 0
    """Of the largest."""

    def add(self, before: resource.struct_rusage, after: resource.struct_rusage, peaks: list[int]) -> None:
        """The children that ended between two readings of getrusage(2)."""
        self.user_ns += round((after.ru_utime - before.ru_utime) * 1e9)
        self.system_ns += round((after.ru_stime - before.ru_stime) * 1e9)
        self.voluntary_switches += after.ru_nvcsw - before.ru_nvcsw
        self.involuntary_switches += after.ru_nivcsw - before.ru_nivcsw
        self.major_faults += after.ru_majflt - before.ru_majflt
        self.peak_resident_bytes = max(self.peak_resident_bytes, *peaks)


ENDED = Ended()


class ClientDied(Exception):
    """A client's process or thread ended without a result."""


@dataclass(frozen=True)
class Task:
    """What all clients of a phase have in common."""

    workload: Workload
    phase: Phase
    clients: int
    pace: Pace
    formation: ClientGroup | None
    """None for a single client."""
    server: tuple[int, ...]
    """Its processes."""
    announce: Announce
    """Called in this process alone, before a check that may take long."""

    def flights(self, client: int) -> BatchScheduler:
        if self.formation is not None:
            return self.formation.member(client)
        if self.server:
            return SingleClient(served=True)
        return SoloClient() if self.pace.rate is None else SingleClient()

    def abort(self) -> None:
        """Lets nobody wait for a client that is no more."""
        if self.formation is not None:
            self.formation.barrier.abort()


def run_phase(
    workload: Workload,
    phase: Phase,
    clients: int,
    how: str,
    pace: Pace,
    ready: Callable[[], object] = lambda: None,
    server: Sequence[int] = (),
    announce: Announce = lambda: None,
) -> Tally:
    """Measures the prepared phase. `how` is the engine's: 'threads' or 'processes'; `server`: its processes.

    `ready` is called once in this process, when all clients have warmed up and are about to start.
    """
    if phase.reported:
        return reported(workload, phase, pace, ready)
    threads = clients == 1 or how == "threads"
    formation = None
    if clients > 1:
        # A server has the cores meanwhile.
        awake = not server and clients <= len(os.sched_getaffinity(0))
        barrier: Any = threading.Barrier(clients) if threads else Barrier(clients, awake)
        formation = ClientGroup(barrier, clients, bool(server))
    task = Task(workload, phase, clients, pace, formation, with_descendants(server), announce)
    # Around all clients: the first thread to end would switch the collector on for the others.
    with uncollected():
        return _threads(task, ready) if threads else _merged(_processes(task, ready))


def _merged(tallies: list[Tally]) -> Tally:
    whole = tallies[0]
    for tally in tallies[1:]:
        whole.merge(tally)
    return whole


def _client(task: Task, place: ClientPosition, ready: Callable[[], object]) -> Tally:
    workload, phase, pace = task.workload, task.phase, task.pace
    if phase.temperature == "cold":
        # A round beforehand would make warm what is to be cold, and a second one finds it warm.
        pace = replace(pace, warmup_ns=0, duration_ns=None, budget_ns=pace.limit_ns)
    with workload.connect() as port:
        return measure(
            lambda number: workload.work(phase, port, place.client, place.clients, number),
            pace,
            ready,
            place,
            hot=phase.temperature == "hot",
            flights=task.flights(place.client),
            writes=phase.writes,
            watch=partial(cpu_ns, task.server),
            # Several clients are threads or processes, and one alone writes on the pipe of the results.
            announce=task.announce if task.clients == 1 else lambda: None,
        )


class _Used:
    """What this process used from when its clients were ready, without what their threads did in pauses."""

    def __init__(self) -> None:
        self._begin = own()

    def ready(self) -> None:
        self._begin = own()

    def settle(self, whole: Tally) -> Tally:
        used = less(own() - self._begin, whole.paused)
        if used.voluntary_switches is not None:
            used = replace(used, voluntary_switches=max(used.voluntary_switches - whole.paused_waits, 0))
        whole.usage = used
        return whole


def less(used: Usage, paused: tuple[int, int]) -> Usage:
    """Without the user and system CPU time of pauses. The sum of both is right, be the split as it may: the kernel
    splits a thread's time into user and system by samples, and a process's by others.
    """
    if used.user_ns is None or used.system_ns is None:
        return used
    user, system = used.user_ns - paused[0], used.system_ns - paused[1]
    # What one has too little, the other has too much.
    user, system = max(user + min(system, 0), 0), max(system + min(user, 0), 0)
    return replace(used, user_ns=user, system_ns=system)


def _threads(task: Task, ready: Callable[[], object]) -> Tally:
    """The clients as threads; a single one in the main thread."""
    clients = task.clients
    used = _Used()

    def all_ready() -> None:
        ready()
        used.ready()

    if clients == 1:
        return used.settle(_client(task, ClientPosition(), all_ready))
    barrier = threading.Barrier(clients, all_ready)
    task.workload.engine()
    results: list[Tally | BaseException | None] = [None] * clients

    def run(client: int) -> None:
        try:
            place = ClientPosition(client, clients, leads=client == 0)
            results[client] = _client(task, place, lambda: barrier.wait(START_TIMEOUT))
        except BaseException as error:
            barrier.abort()
            task.abort()
            results[client] = error

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return used.settle(_merged(_tallies(results)))


def _processes(task: Task, ready: Callable[[], object]) -> list[Tally]:
    clients = task.clients
    # Forked, so that the dataset and the model's shared memory are there; the engine is not: it is closed first.
    context = multiprocessing.get_context("fork")
    # This process is the last at it, so that it knows when all are ready.
    barrier, parent = context.Barrier(clients + 1), os.getpid()
    task.workload.release()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    receivers, processes = [], []
    for client in range(clients):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_child,
            args=(task, ClientPosition(client, clients), barrier, sender, parent),
            daemon=True,
        )
        process.start()
        sender.close()
        receivers.append(receiver)
        processes.append(process)
    results, peaks = _hear_out(receivers, barrier, task.abort, ready)
    for process in processes:
        process.join()
    ENDED.add(before, resource.getrusage(resource.RUSAGE_CHILDREN), peaks)
    return _tallies(results)


def _child(task: Task, place: ClientPosition, barrier: Any, sender: Any, parent: int) -> None:
    die_with_parent(parent)
    used = _Used()

    def ready() -> None:
        sender.send(READY)
        barrier.wait(START_TIMEOUT)
        used.ready()

    try:
        tally = _client(task, place, ready)
        # What closing the engine writes is this phase's.
        task.workload.release()
        result: Tally | BaseException = used.settle(tally)
    except BaseException as error:
        barrier.abort()
        task.abort()
        kept = isinstance(error, (MemoryError, threading.BrokenBarrierError))
        result = error if kept else ClientDied(f"{type(error).__name__}: {error}")
    sender.send((result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10))


Results = list[Tally | BaseException | None]


def _hear_out(
    receivers: list[Any], barrier: Any, abort: Callable[[], None], ready: Callable[[], object]
) -> tuple[Results, list[int]]:
    """What each client sends, and the most memory that it had; None and 0 for one that died, in which case nobody is
    to wait for it at the barrier."""
    results: Results = [None] * len(receivers)
    peaks = [0] * len(receivers)
    waiting = dict(zip(receivers, range(len(receivers)), strict=True))
    coming = len(receivers)
    while waiting:
        receiver: Any
        for receiver in wait(list(waiting)):
            try:
                told = receiver.recv()
            except EOFError:
                barrier.abort()
                abort()
                told = None, 0
            if told == READY:
                coming -= 1
                if not coming:
                    _start(barrier, ready)
            else:
                client = waiting.pop(receiver)
                results[client], peaks[client] = told
    return results, peaks


def _start(barrier: Any, ready: Callable[[], object]) -> None:
    """Lets the clients go, that wait at the barrier. Broken, it is by one of them, which says why."""
    ready()
    with suppress(threading.BrokenBarrierError):
        barrier.wait(START_TIMEOUT)


def _tallies(results: list[Tally | BaseException | None]) -> list[Tally]:
    """The tallies of all clients. Raises what went wrong with one, before what it only spoiled for the others."""
    told = sorted(enumerate(results), key=lambda pair: isinstance(pair[1], threading.BrokenBarrierError))
    for client, result in told:
        _tally(result, client)
    return [result for result in results if isinstance(result, Tally)]


def _tally(result: Tally | BaseException | None, client: int) -> Tally:
    if isinstance(result, Tally):
        return result
    if isinstance(result, MemoryError):
        raise result
    why = "ended without a result" if result is None else f"{type(result).__name__}: {result}"
    raise ClientDied(f"client {client} {why}")
