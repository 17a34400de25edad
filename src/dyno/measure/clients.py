"""Runs a phase with its clients. A single client runs in the worker itself; several run as its threads, or as
processes forked from it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from dyno.contracts.model import Phase, Refused, Unavailable
from dyno.contracts.pace import Pace
from dyno.contracts.roles import NativeWorkload
from dyno.contracts.suite import Work, Workload
from dyno.host.process import allow_open_files, die_with_parent
from dyno.host.usage import cpu_ns, of_ended_children, own_peak_resident_bytes, with_descendants
from dyno.measure.barrier import Barrier
from dyno.measure.batches import BatchRules
from dyno.measure.client_states import ClientStates, State, watch_states
from dyno.measure.client_usage import ENDED_CLIENTS, UsageMeter
from dyno.measure.driver import Client, measure
from dyno.measure.loop import disable_collection
from dyno.measure.position import ClientPosition, Share
from dyno.measure.schedule import (
    BatchScheduler,
    ClientGroup,
    SingleClient,
    SoloClient,
)
from dyno.measure.slices import Announce, Rounds
from dyno.measure.tally import Tally, run_reported

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier as ProcessBarrier

START_TIMEOUT = 120
FILES_PER_CLIENT, SPARE_FILES = 8, 200
"""Open files of a process with native load. Each client has connections of the engine and of the port, and pymongo's
clients have monitors."""
CONNECTIONS = 8
"""Least number of connections of each process, where several processes share those of native load."""
READY = "ready"


Publish = Callable[[Any], object]


class ClientDied(Exception):
    """A client's process or thread ended without a result."""


@dataclass(frozen=True)
class Task:
    """Arguments that all clients of a phase share."""

    workload: Workload
    phase: Phase
    clients: int
    pace: Pace
    states: ClientStates
    """States of the clients, or of the connections of native load."""
    group: ClientGroup | None
    """None for a single client."""
    server: tuple[int, ...]
    """Ids of the server's processes."""
    announce: Announce
    """Called before a check that may take long. Only a single client calls it."""
    connections: int = 0
    """Connections of native load, of all clients together. The clients then are processes with several connections
    each."""
    turns: int = 0
    """If not 0, the number of clients that take turns in the processes, which `clients` is the number of."""
    share: Share | None = None
    """The clients on this machine, if others run on other machines."""
    publish: Publish | None = None
    """See `dyno.contracts.counters.CounterSpec.publish`."""

    def scheduler(self, client: int) -> BatchScheduler:
        if self.group is not None:
            return self.group.client(client)
        if self.connections or self.server or self.share is not None:
            whole_ns = 0
            if self.share is not None:
                whole_ns = self.pace.limit_ns
            return SingleClient(BatchRules(True, self.connections or 1, whole_ns))
        if self.pace.rate is None:
            return SoloClient()
        return SingleClient()

    def publish_counters(self) -> None:
        """Makes the server publish what this client has counted. Fails silently: the answers of the phase are more
        than its counters."""
        if self.publish is not None:
            with suppress(Exception):
                self.publish(self.workload.engine())

    def abort(self) -> None:
        """Releases clients that wait for a dead one."""
        if self.group is not None:
            self.group.barrier.abort()


def run_phase(
    workload: Workload,
    phase: Phase,
    clients: int,
    how: str,
    pace: Pace,
    ready: Callable[[], object] = lambda: None,
    server: Sequence[int] = (),
    announce: Announce = lambda: None,
    publish: Publish | None = None,
    share: Share | None = None,
) -> Tally:
    """Measures the prepared phase. `how` is the engine's kind of clients: see `EngineSpec.clients`. `server` has the
    ids of the server's processes. `ready` is called once in this process, when all clients have warmed up and are
    about to start. `publish`: see `dyno.contracts.counters.CounterSpec`. `share`: the clients of this machine, if
    others run elsewhere; the phase then is one batch."""
    if phase.reported:
        return run_reported(workload, phase, pace, ready)
    native = isinstance(workload, NativeWorkload) and workload.native_port(phase) is not None
    connections = clients if native else 0
    cores, turns = len(os.sched_getaffinity(0)), 0
    if connections:
        clients, how = _native_processes(clients, cores), "processes"
    elif how == "turns" and clients > cores:
        clients, turns = cores, clients
    threads = clients == 1 or how == "threads"
    states, group = ClientStates(connections or clients), None
    if clients > 1:
        # With a server, waiting clients sleep, because the server needs the cores.
        awake = not server and clients <= cores
        barrier = threading.Barrier(clients) if threads else Barrier(clients, awake)
        # Processes that share cores wait for a core in each batch, so their batches are long too.
        long = bool(server) or share is not None or (clients > cores and not threads)
        whole_ns = 0 if share is None else pace.limit_ns
        rules = BatchRules(long, -(-connections // clients) or 1, whole_ns)
        group = ClientGroup(barrier, clients, rules, None if connections else states)
    served = with_descendants(server)
    task = Task(workload, phase, clients, pace, states, group, served, announce, connections, turns, share, publish)
    # The block is around all clients: otherwise the first thread to end would switch the collector on for the others.
    with disable_collection(), watch_states(states):
        tally = _threads(task, ready) if threads else _merge_tallies(_processes(task, ready))
    tally.exclude_idle_time(connections or clients)
    tally.processes = 1 if threads else clients
    return tally


def _native_processes(connections: int, cores: int) -> int:
    """Returns the number of processes that share the connections of native load. A second process keeps the server
    busy while the first one waits for a core or checks answers, but every process takes a core from the server."""
    return max(min(connections // CONNECTIONS, max(cores // 4, 2), cores), 1)


def _merge_tallies(tallies: list[Tally]) -> Tally:
    whole = tallies[0]
    for tally in tallies[1:]:
        whole.merge(tally)
    return whole


def _client(task: Task, position: ClientPosition, ready: Callable[[], object]) -> Tally:
    phase, pace = task.phase, task.pace
    if phase.temperature == "cold":
        # A warm-up or a second round would make the data warm.
        pace = replace(pace, warmup_ns=0, duration_ns=None, budget_ns=pace.limit_ns)
    with ExitStack() as stack:
        make: Callable[..., Client] = Client
        rounds: Rounds = _no_rounds
        if task.connections:
            make = _native_clients(task, position, stack)
        else:
            task.states.start(position.client)
            rounds = _library_rounds(task, position, stack)

        def warmed_up() -> None:
            if not task.connections:
                task.states.enter(position.client, State.OTHERS)
            ready()

        tally = measure(
            rounds,
            pace,
            warmed_up,
            position,
            hot=phase.temperature == "hot",
            scheduler=task.scheduler(position.client),
            writes=phase.writes,
            watch=partial(cpu_ns, task.server),
            # Several clients must not write to the worker's pipe at the same time, so only a single one announces.
            announce=task.announce if task.clients == 1 else lambda: None,
            make=make,
            warmed=task.publish_counters,
        )
        task.publish_counters()
    if not task.connections and (tally.operations or tally.ended_by != "count"):
        tally.by_client = [tally.operations]
    return tally


def _rounds(task: Task, port: object, client: int, clients: int, number: int) -> Iterator[Work]:
    return task.workload.work(task.phase, port, client, clients, number)


def _library_rounds(task: Task, position: ClientPosition, stack: ExitStack) -> Rounds:
    """Returns the rounds of this process's or thread's client, or of its clients, which take turns."""
    clients = task.turns or position.clients
    share = task.share or Share(clients)
    each = [
        partial(_rounds, task, stack.enter_context(task.workload.connect()), share.number(client), share.clients)
        for client in range(position.client, clients, position.clients)
    ]
    if len(each) == 1:
        return each[0]
    return partial(_in_turns, each)


def _in_turns(each: Sequence[Rounds], number: int) -> Iterator[Work]:
    """Yields a slice of each client in turn, until all have ended their round."""
    waiting = [rounds(number) for rounds in each]
    try:
        while waiting:
            for slices in list(waiting):
                work = next(slices, None)
                if work is None:
                    waiting.remove(slices)
                else:
                    yield work
    finally:
        for slices in waiting:
            if isinstance(slices, Generator):
                slices.close()


def _no_rounds(number: int) -> Iterator[Work]:
    return iter(())


def _native_clients(task: Task, position: ClientPosition, stack: ExitStack) -> Callable[..., Client]:
    """Returns a constructor for this process's share of the clients, each with its own connection."""
    from dyno._native import Wire
    from dyno.measure.native_load import NativeClients

    assert isinstance(task.workload, NativeWorkload)
    native = task.workload.native_port(task.phase)
    assert native is not None
    share = task.share or Share(task.connections)
    each = range(position.client, task.connections, position.clients)
    # The usual limit is 1,024.
    allow_open_files(FILES_PER_CLIENT * len(each) + SPARE_FILES)
    ports = {}
    for own in each:
        task.states.start(own)
        ports[share.number(own)] = native(stack.enter_context(task.workload.connect()))
        task.states.enter(own, State.OTHERS)
    exchanges = [port.exchange for port in ports.values()]
    wire = Wire(exchanges[0].protocol, [exchange.descriptor for exchange in exchanges])
    rounds = {client: partial(_rounds, task, port, client, share.clients) for client, port in ports.items()}
    return partial(NativeClients, wire, rounds, share.clients, task.states)


def _threads(task: Task, ready: Callable[[], object]) -> Tally:
    """Runs the clients as threads. A single client runs in the main thread."""
    clients = task.clients
    usage = UsageMeter()

    def all_ready() -> None:
        ready()
        usage.begin()

    def end(tally: Tally) -> Tally:
        whole = usage.end(tally)
        whole.usage_until = usage.latest
        return whole

    if clients == 1:
        return end(_client(task, ClientPosition(share=task.share), all_ready))
    barrier = threading.Barrier(clients, all_ready)
    task.workload.engine()
    results: list[Tally | BaseException | None] = [None] * clients

    def run(client: int) -> None:
        try:
            position = ClientPosition(client, clients, client == 0, task.share)
            results[client] = _client(task, position, lambda: barrier.wait(START_TIMEOUT))
        except BaseException as error:
            barrier.abort()
            task.abort()
            results[client] = error

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return end(_merge_tallies(_tallies(results)))


def _processes(task: Task, ready: Callable[[], object]) -> list[Tally]:
    clients = task.clients
    # Forked, so that the clients share the memory of the dataset and the model. The engine is closed first.
    context = multiprocessing.get_context("fork")
    # This process waits at the barrier too, to know when all clients are ready.
    barrier, parent = context.Barrier(clients + 1), os.getpid()
    task.workload.release()
    before = of_ended_children()
    receivers, processes = [], []
    for client in range(clients):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_child,
            args=(task, ClientPosition(client, clients, share=task.share), barrier, sender, parent),
            daemon=True,
        )
        process.start()
        sender.close()
        receivers.append(receiver)
        processes.append(process)
    results, peaks = _collect(receivers, barrier, task.abort, ready)
    for process in processes:
        process.join()
    ENDED_CLIENTS.usage += of_ended_children() - before
    ENDED_CLIENTS.peak_resident_bytes = max(ENDED_CLIENTS.peak_resident_bytes, *peaks)
    return _tallies(results)


def _child(task: Task, position: ClientPosition, barrier: ProcessBarrier, sender: Connection, parent: int) -> None:
    die_with_parent(parent)
    usage = UsageMeter()

    def wait_for_start() -> None:
        sender.send(READY)
        barrier.wait(START_TIMEOUT)
        usage.begin()

    try:
        tally = _client(task, position, wait_for_start)
        # Closing the engine may write, which belongs to this phase.
        task.workload.release()
        result: Tally | BaseException = usage.end(tally)
    except BaseException as error:
        barrier.abort()
        task.abort()
        if isinstance(error, (MemoryError, threading.BrokenBarrierError)):
            result = error
        else:
            result = _plain(error)
    sender.send((result, own_peak_resident_bytes()))


def _plain(error: BaseException) -> Exception:
    """Returns the error as one of a type that every process knows."""
    kind = next((kind for kind in (ClientDied, Unavailable, Refused) if isinstance(error, kind)), None)
    if kind is None:
        return ClientDied(f"{type(error).__name__}: {error}")
    return kind(str(error))


Results = list[Tally | BaseException | None]


def _collect(
    receivers: list[Connection], barrier: ProcessBarrier, abort: Callable[[], None], ready: Callable[[], object]
) -> tuple[Results, list[int]]:
    """Returns each client's result and peak memory in bytes. A client that died has None and 0, and the clients that
    wait for it are released."""
    results: Results = [None] * len(receivers)
    peaks = [0] * len(receivers)
    waiting = dict(zip(receivers, range(len(receivers)), strict=True))
    not_ready = len(receivers)
    while waiting:
        receiver: Any
        for receiver in wait(list(waiting)):
            try:
                message = receiver.recv()
            except EOFError:
                barrier.abort()
                abort()
                message = None, 0
            if message != READY:
                client = waiting.pop(receiver)
                results[client], peaks[client] = message
                continue
            not_ready -= 1
            if not not_ready:
                ready()
                # The client that broke the barrier reports why.
                with suppress(threading.BrokenBarrierError):
                    barrier.wait(START_TIMEOUT)
    return results, peaks


def _tallies(results: Results) -> list[Tally]:
    """Returns the tallies of all clients. If a client failed, raises its error rather than the errors of clients that
    waited for it."""
    broken_last = sorted(enumerate(results), key=lambda pair: isinstance(pair[1], threading.BrokenBarrierError))
    for client, result in broken_last:
        if isinstance(result, MemoryError):
            raise result
        if result is None:
            raise ClientDied(f"client {client} ended without a result")
        if not isinstance(result, Tally):
            error = _plain(result)
            raise type(error)(f"client {client}: {error}")
    return [result for result in results if isinstance(result, Tally)]
