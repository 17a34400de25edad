"""Guards how the clients of a phase run side by side: all of them counted, started together, and when one of them
fails or dies the phase fails with the reason. Real threads and processes, with a workload made up here.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import pytest

from dyno.model import Phase, Wrong
from dyno.run.clients import ClientDied, run_phase
from dyno.suite import Operations

PHASE = Phase("made-up", "made up", "op", writes=False)
FOREVER = 10**15
LONG = 60
"""Seconds that nothing here takes, unless it is broken."""
both = pytest.mark.parametrize("how", ["threads", "processes"])


class Made:
    """A workload of four operations for each client, which call `operation` with the client's number."""

    def __init__(
        self,
        operation: Callable[[int], Any] = lambda client: client,
        disconnected: Callable[[], Any] = lambda: None,
        check: Callable[[int], int] = lambda client: 4,
    ) -> None:
        self.operation, self.disconnected, self.check = operation, disconnected, check

    def engine(self) -> None:
        pass

    def release(self) -> None:
        pass

    @contextmanager
    def connect(self) -> Iterator[Any]:
        yield None
        self.disconnected()

    def work(self, phase: Phase, port: Any, client: int, clients: int) -> Iterator[Operations]:
        check = lambda answers: self.check(client)  # noqa: E731
        yield Operations(lambda _: repeat(self.operation), [client] * 4, check, kinds=["kind"] * 4)


def run(made: Any, clients: int, how: str) -> Any:
    return run_phase(made, PHASE, clients, how, FOREVER)


@both
@pytest.mark.parametrize("clients", [1, 2, 5])
def test_every_client_does_its_share(clients: int, how: str) -> None:
    tally = run(Made(), clients, how)
    assert (tally.operations, tally.items, tally.checked) == (4 * clients,) * 3
    assert int(tally.latency.counts.sum()) == 4 * clients
    assert (tally.errors, tally.void, tally.ended_by) == (0, None, "count")
    assert int(tally.by_kind["kind"].counts.sum()) == 4 * clients


def test_threads_are_of_this_process_and_processes_are_not() -> None:
    def where(client: int) -> None:
        raise OSError(f"{os.getpid()} {threading.get_ident()}")

    here = str(os.getpid())
    assert here in run(Made(where), 2, "threads").first_error
    assert here not in run(Made(where), 2, "processes").first_error


def test_clients_run_at_the_same_time() -> None:
    met = threading.Barrier(3)
    tally = run(Made(lambda client: met.wait(LONG)), 3, "threads")
    assert tally.errors == 0


@both
def test_a_wrong_answer_of_one_client_voids_the_phase(how: str) -> None:
    def check(client: int) -> int:
        if client == 1:
            raise Wrong("stale")
        return 4

    assert run(Made(check=check), 3, how).void == "stale"


def dying(client: int) -> None:
    if client == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_client_process_that_is_killed_fails_the_phase() -> None:
    with pytest.raises(ClientDied, match="client 1 ended without a result"):
        run(Made(dying), 3, "processes")


def meeting(clients: int) -> Callable[[int], Any]:
    """An operation in which each client, thread or forked process, waits for all others the first time it is called:
    all of them have started then."""
    barrier, met = multiprocessing.get_context("fork").Barrier(clients), set[int]()

    def operation(client: int) -> None:
        if client not in met:
            met.add(client)
            barrier.wait(LONG)

    return operation


@both
def test_an_answer_that_a_client_cant_check_voids_the_phase(how: str) -> None:
    def check(client: int) -> int:
        if client == 2:
            raise ZeroDivisionError("in the check")
        return 4

    tally = run(Made(meeting(3), check=check), 3, how)
    assert tally.void == "an answer that can't be checked: ZeroDivisionError: in the check"


@both
def test_a_client_out_of_memory_is_out_of_memory(how: str) -> None:
    met = meeting(3)

    def operation(client: int) -> None:
        met(client)
        if client == 1:
            raise MemoryError

    with pytest.raises(MemoryError):
        run(Made(operation), 3, how)


class LastCantStart(Made):
    def work(self, phase: Phase, port: Any, client: int, clients: int) -> Iterator[Operations]:
        if client == clients - 1:
            raise ConnectionRefusedError("no more readers")
        return super().work(phase, port, client, clients)


@both
def test_a_client_that_cant_start_is_the_reason_that_is_told(how: str) -> None:
    with pytest.raises(ClientDied, match="no more readers"):
        run(LastCantStart(), 3, how)


def test_garbage_collection_stays_off_until_the_last_client_is_done() -> None:
    first_is_done, on = threading.Event(), list[bool]()

    def operation(client: int) -> None:
        if client == 1:
            assert first_is_done.wait(LONG)
            on.append(gc.isenabled())

    tally = run(Made(operation, first_is_done.set), 2, "threads")
    assert tally.errors == 0
    assert on == [False] * 4


def in_a_process_namespace() -> list[str]:
    """The command that runs another as process 1, as a container does."""
    unshare = shutil.which("unshare")
    for more in ([], ["--user", "--map-root-user"]):
        command = [str(unshare), *more, "--pid", "--fork"]
        if unshare and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    pytest.skip("no process namespaces here")


def test_a_worker_lives_on_where_dyno_is_process_1_of_a_container() -> None:
    child = "import os; from dyno.run.process import die_with_parent; die_with_parent(os.getppid()); print('alive')"
    parent = f"import os, subprocess, sys; assert os.getpid() == 1; subprocess.run([sys.executable, '-c', {child!r}])"
    command = [*in_a_process_namespace(), sys.executable, "-c", parent]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "alive\n"
