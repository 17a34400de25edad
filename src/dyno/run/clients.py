"""Runs a phase with its clients: one in the worker itself, several as its threads or as processes forked from it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from dyno.model import Phase
from dyno.run.measure import Tally, measure, uncollected
from dyno.run.process import die_with_parent
from dyno.suite import Workload

START_TIMEOUT = 120


class ClientDied(Exception):
    """A client's process or thread ended without a result."""


def run_phase(workload: Workload, phase: Phase, clients: int, how: str, budget_ns: int) -> Tally:
    """Measures the prepared phase. `how` is the engine's: 'threads' or 'processes'."""
    # Around all clients: the first thread to end would switch the collector on for the others.
    with uncollected():
        return _run(workload, phase, clients, how, budget_ns)


def _run(workload: Workload, phase: Phase, clients: int, how: str, budget_ns: int) -> Tally:
    if clients == 1:
        return _client(workload, phase, 0, 1, budget_ns, lambda: None)
    if how == "threads":
        tallies = _threads(workload, phase, clients, budget_ns)
    else:
        tallies = _processes(workload, phase, clients, budget_ns)
    whole = tallies[0]
    for tally in tallies[1:]:
        whole.merge(tally)
    return whole


def _client(
    workload: Workload, phase: Phase, client: int, clients: int, budget_ns: int, ready: Callable[[], object]
) -> Tally:
    with workload.connect() as port:
        return measure(workload.work(phase, port, client, clients), budget_ns, ready)


def _threads(workload: Workload, phase: Phase, clients: int, budget_ns: int) -> list[Tally]:
    barrier = threading.Barrier(clients)
    workload.engine()
    results: list[Tally | BaseException | None] = [None] * clients

    def run(client: int) -> None:
        try:
            results[client] = _client(
                workload, phase, client, clients, budget_ns, lambda: barrier.wait(START_TIMEOUT)
            )
        except BaseException as error:
            barrier.abort()
            results[client] = error

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _tallies(results)


def _processes(workload: Workload, phase: Phase, clients: int, budget_ns: int) -> list[Tally]:
    # Forked, so that the dataset and the model's shared memory are there; the engine is not: it is closed first.
    context = multiprocessing.get_context("fork")
    barrier, parent = context.Barrier(clients), os.getpid()
    workload.release()
    receivers, processes = [], []
    for client in range(clients):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_child, args=(workload, phase, client, clients, budget_ns, barrier, sender, parent), daemon=True
        )
        process.start()
        sender.close()
        receivers.append(receiver)
        processes.append(process)
    results = _hear_out(receivers, barrier)
    for process in processes:
        process.join()
    return _tallies(results)


def _child(
    workload: Workload,
    phase: Phase,
    client: int,
    clients: int,
    budget_ns: int,
    barrier: Any,
    sender: Any,
    parent: int,
) -> None:
    die_with_parent(parent)
    try:
        ready = lambda: barrier.wait(START_TIMEOUT)  # noqa: E731
        result: Tally | BaseException = _client(workload, phase, client, clients, budget_ns, ready)
        workload.release()
    except BaseException as error:
        barrier.abort()
        kept = isinstance(error, (MemoryError, threading.BrokenBarrierError))
        result = error if kept else ClientDied(f"{type(error).__name__}: {error}")
    sender.send(result)


def _hear_out(receivers: list[Any], barrier: Any) -> list[Tally | BaseException | None]:
    """What each client sends; None for one that died, in which case nobody is to wait for it at the barrier."""
    results: list[Tally | BaseException | None] = [None] * len(receivers)
    waiting = dict(zip(receivers, range(len(receivers)), strict=True))
    while waiting:
        receiver: Any
        for receiver in wait(list(waiting)):
            client = waiting.pop(receiver)
            try:
                results[client] = receiver.recv()
            except EOFError:
                barrier.abort()
    return results


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
