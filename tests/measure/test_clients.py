"""Tests how the clients of a phase run side by side: all are counted and start together, their usage excludes that of
their inputs, and if one fails or dies the phase fails with the reason. The tests use real threads and processes, and
a workload of this module.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clockwork import both_loops, the_loop

from dyno.contracts.model import Phase, Unavailable, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Bulk, Operations
from dyno.host.usage import NOTHING, without_pauses
from dyno.measure import client_states
from dyno.measure.clients import ClientDied, run_phase

pytestmark = pytest.mark.usefixtures("processes")

PHASE = Phase("made-up", "made up", "op", writes=False)
MS = 1_000_000
LONG = 60
"""Timeout in seconds, which is reached only if something is broken."""
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

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
        check = lambda answers: self.check(client)  # noqa: E731
        yield Operations(lambda _: [self.operation], [client] * 4, check, kinds=["kind"] * 4)


def run(made: Any, clients: int, how: str, phase: Phase = PHASE, **pace: Any) -> Any:
    return run_phase(made, phase, clients, how, Pace(**pace))


@pytest.mark.claim("Clients run at the same time, and all their work is counted")
@pytest.mark.parametrize("how", ["threads", "processes", "turns"])
@both_loops
@pytest.mark.parametrize("clients", [1, 2, 5])
def test_every_client_does_its_share(clients: int, how: str, loop: str) -> None:
    the_loop(loop)
    tally = run(Made(), clients, how, loop=loop)
    assert (tally.operations, tally.items, tally.checked) == (4 * clients,) * 3
    assert int(tally.latency.counts.sum()) == 4 * clients
    assert (tally.errors, tally.void, tally.ended_by) == (0, None, "count")
    assert int(tally.by_kind["kind"].counts.sum()) == 4 * clients


def test_threads_run_in_this_process_unlike_processes() -> None:
    def where(client: int) -> None:
        raise OSError(f"{os.getpid()} {threading.get_ident()}")

    here = str(os.getpid())
    assert here in run(Made(where), 2, "threads").first_error
    assert here not in run(Made(where), 2, "processes").first_error


@pytest.mark.claim("Clients of null engines are at most a process for each core, whatever their number")
def test_clients_in_turns_have_one_process_per_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})

    class TwoSlices(Made):
        def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
            for _ in range(2):
                yield from super().work(phase, port, client, clients, round)

    def note(client: int) -> None:
        with (tmp_path / str(os.getpid())).open("a") as file:
            file.write(f"{client} ")

    tally = run(TwoSlices(note), 5, "turns", loop="python")
    assert tally.processes == 2 and tally.operations == tally.checked == 40
    orders = sorted(file.read_text().split()[::4] for file in tmp_path.iterdir())
    assert orders == [["0", "2", "4", "0", "2", "4"], ["1", "3", "1", "3"]]
    assert run(Made(), 5, "processes").processes == 5 and run(Made(), 5, "threads").processes == 1


@pytest.mark.claim("Clients run at the same time, and all their work is counted")
def test_clients_run_at_the_same_time() -> None:
    met = threading.Barrier(3)
    tally = run(Made(lambda client: met.wait(LONG)), 3, "threads")
    assert tally.errors == 0


@both
def test_wrong_answer_of_one_client_voids_phase(how: str) -> None:
    def check(client: int) -> int:
        if client == 1:
            raise Wrong("stale")
        return 4

    tally = run(Made(check=check), 3, how)
    assert tally.void == "stale"
    assert sum(tally.by_client) == tally.operations and len(tally.by_client) == 3


def dying(client: int) -> None:
    if client == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_killed_client_process_fails_the_phase() -> None:
    with pytest.raises(ClientDied, match="client 1 ended without a result"):
        run(Made(dying), 3, "processes")


def meeting(clients: int) -> Callable[[int], Any]:
    """An operation in which each client (thread or forked process) waits, at its first call, until all others have
    started."""
    barrier, met = multiprocessing.get_context("fork").Barrier(clients), set[int]()

    def operation(client: int) -> None:
        if client not in met:
            met.add(client)
            barrier.wait(LONG)

    return operation


@both
def test_uncheckable_answer_voids_the_phase(how: str) -> None:
    def check(client: int) -> int:
        if client == 2:
            raise ZeroDivisionError("in the check")
        return 4

    tally = run(Made(meeting(3), check=check), 3, how)
    assert tally.void == "an answer that can't be checked: ZeroDivisionError: in the check"


@both
def test_client_memory_error_is_raised(how: str) -> None:
    met = meeting(3)

    def operation(client: int) -> None:
        met(client)
        if client == 1:
            raise MemoryError

    with pytest.raises(MemoryError):
        run(Made(operation), 3, how)


class LastCantStart(Made):
    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
        if client == clients - 1:
            raise ConnectionRefusedError("no more readers")
        return super().work(phase, port, client, clients, round)


@both
def test_client_start_failure_is_reported_as_reason(how: str) -> None:
    with pytest.raises(ClientDied, match=r"^client 2: ConnectionRefusedError: no more readers$"):
        run(LastCantStart(), 3, how)


@both
def test_client_refusal_is_raised_as_unavailable(how: str) -> None:
    class LastRefused(LastCantStart):
        def work(self, phase: Phase, port: Any, client: int, *others: int) -> Iterator[Operations | Bulk]:
            try:
                return super().work(phase, port, client, *others)
            except ConnectionRefusedError:
                raise Unavailable("can't connect to its server") from None

    with pytest.raises(Unavailable, match=r"^client 2: can't connect to its server$"):
        run(LastRefused(), 3, how)


@both
def test_late_client_is_named_by_its_number(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_states, "LATE_NS", 50 * MS)

    def operation(client: int) -> None:
        late, until = None, time.monotonic() + LONG
        # The other clients may still be about to wait for this one.
        while client == 2 and (late is None or "clients" in late) and time.monotonic() < until:
            time.sleep(0.01)
            late = client_states.describe_late_clients()
        if client == 2:
            raise OSError(late)

    error = run(Made(operation), 3, how).first_error
    assert re.fullmatch(r"OSError: client 2 waited \d+\.\d s for the engine( \(\w+\))?", error)
    assert client_states.describe_late_clients() is None


def test_many_late_clients_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_states, "LATE_NS", 0)
    states = client_states.ClientStates(9)
    for client in range(1, 8):
        states.enter(client, client_states.State.ANSWER)
    assert states.describe_late() == "7 clients (1, 2, 3, 4, 5, …) waited 0.0 s for an answer"


@pytest.mark.claim("Garbage collection is off while the clock runs")
def test_garbage_collection_is_off_until_last_client_ends() -> None:
    on: list[bool] = []
    # Check also when a client disconnects, which one client does before the other.
    tally = run(Made(lambda client: on.append(gc.isenabled()), lambda: on.append(gc.isenabled())), 2, "threads")
    assert tally.errors == 0
    assert on == [False] * 10
    assert gc.isenabled()


# -- rounds and rate --------------------------------------------------------------------------------------


class Recorded(Made):
    """Records the client, round and number of clients of each operation, in client processes too."""

    def __init__(self) -> None:
        super().__init__()
        self.done = multiprocessing.get_context("fork").SimpleQueue()

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
        yield Operations(lambda _: [self.done.put], [(client, clients, round)], len)

    def seen(self) -> list[tuple[int, int, int]]:
        found = []
        while not self.done.empty():
            found.append(self.done.get())
        return sorted(found)


WARM = 1_000_000


@pytest.mark.parametrize(("clients", "how"), [(1, "threads"), (2, "threads"), (2, "processes")])
def test_hot_phase_runs_a_warm_round_per_client(clients: int, how: str) -> None:
    made = Recorded()
    tally = run(made, clients, how, Phase("hot", "hot", "op", writes=False, temperature="hot"))
    assert made.seen() == [(client, clients, round) for client in range(clients) for round in (0, WARM)]
    assert (tally.operations, tally.warm) == (clients, True)


@pytest.mark.parametrize(("clients", "how"), [(1, "threads"), (2, "threads"), (2, "processes")])
@pytest.mark.parametrize("temperature", ["none", "hot", "cold"])
def test_warmup_runs_in_all_but_cold_phases(clients: int, how: str, temperature: str) -> None:
    made = Recorded()
    # A warm-up of 1 ns ends after its first round.
    run(made, clients, how, Phase("made-up", "made up", "op", False, temperature), warmup_ns=1)
    hot, warm_up = [WARM] * (temperature == "hot"), [WARM + 1] * (temperature != "cold")
    assert made.seen() == [(client, clients, round) for client in range(clients) for round in (0, *hot, *warm_up)]


@both
def test_warmup_answers_are_checked(how: str) -> None:
    def check(client: int) -> int:
        raise Wrong("stale")

    class Unchecked(Made):
        def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
            yield Operations(lambda _: [str], [1], (lambda answers: check(client)) if round else len)

    assert run(Unchecked(), 2, how).void is None
    assert run(Unchecked(), 2, how, warmup_ns=1).void == "stale"


@pytest.mark.claim("The rate is that of all clients together")
@both
@both_loops
def test_the_rate_is_shared_out_among_the_clients(how: str, loop: str) -> None:
    """Three clients share a rate of 100 a second: operations of the last one are due at 30, 60, 90 and 120 ms."""
    the_loop(loop)
    tally = run(Made(), 3, how, rate=100.0, loop=loop)
    assert tally.operations == 12
    assert int(tally.response.counts.sum()) == int(tally.late.counts.sum()) == 12
    # No operation begins before it is due: this bound holds on a machine of any speed. The loop's clock and that of
    # several processes agree to a few microseconds.
    assert tally.elapsed_ns >= 120 * MS - 10_000


@both
def test_a_closed_loop_has_no_response_time(how: str) -> None:
    tally = run(Made(), 2, how)
    assert (tally.response, tally.late) == (None, None)


# -- usage of clients -------------------------------------------------------------------------------------


def burn(ms: int) -> None:
    """Uses `ms` milliseconds of this thread's CPU time."""
    begin = time.thread_time_ns()
    while time.thread_time_ns() - begin < ms * MS:
        pass


class Burning(Made):
    """Workload of two slices of two operations for each client. Each operation, the building of each slice and each
    check use the given CPU time in ms."""

    def __init__(self, operation: int = 0, building: int = 0, checking: int = 0, bulk: bool = False) -> None:
        super().__init__()
        self.each, self.building, self.checking, self.bulk = operation, building, checking, bulk

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
        if self.bulk:
            yield Bulk(self._take, self._slices(), 1, self._check)
            return
        for part in self._slices():
            yield Operations(lambda _: [lambda _: burn(self.each)], part, self._check)

    def _slices(self) -> Iterator[list[int]]:
        for _ in range(2):
            burn(self.building)
            yield [1, 2]

    def _take(self, items: Any) -> None:
        for _ in items:
            burn(self.each)

    def _check(self, *_: Any) -> int:
        burn(self.checking)
        return 1


def used_ms(tally: Any) -> float:
    return (tally.usage.user_ns + tally.usage.system_ns) / MS


everywhere = pytest.mark.parametrize(
    ("clients", "how"), [(1, "threads"), (2, "threads"), (2, "processes")], ids=["single", "threads", "processes"]
)
bulk_or_not = pytest.mark.parametrize("bulk", [False, True], ids=["operations", "bulk"])


@everywhere
@bulk_or_not
def test_usage_includes_cpu_time_of_operations(clients: int, how: str, bulk: bool) -> None:
    tally = run(Burning(operation=50, bulk=bulk), clients, how)
    assert 0.9 * 200 * clients <= used_ms(tally) <= 200 * clients + 150


@pytest.mark.claim("CPU time of building inputs and checking answers is not the clients'")
@everywhere
@bulk_or_not
def test_usage_excludes_cpu_time_of_inputs_and_checks(clients: int, how: str, bulk: bool) -> None:
    tally = run(Burning(building=100, checking=100, bulk=bulk), clients, how)
    # Building and checking take at least 100 ms each for each client, and must not be counted.
    assert used_ms(tally) <= 70


@pytest.mark.claim("A row that waking cores could slow by a quarter has a doubt")
@everywhere
def test_usage_excludes_waits_in_pauses(clients: int, how: str) -> None:
    class Sleeping(Made):
        def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Operations | Bulk]:
            for _ in range(2):
                yield Operations(lambda _: [lambda _: time.sleep(1e-4)], range(5), self._check)

        def _check(self, answers: Any) -> int:
            for _ in range(500):
                time.sleep(1e-5)
            return len(answers)

    waits = run(Sleeping(), clients, how).usage.voluntary_switches
    assert waits is not None
    # Each of a client's ten operations waits once, and clients wait for each other before and after a batch, on a
    # busy machine several times. The thousand waits of each client in pauses must not be counted.
    assert 10 * clients <= waits < 800 * clients


@pytest.mark.parametrize(
    ("used", "paused", "left"),
    [
        ((90, 60), (30, 20), (60, 40)),
        ((200, 400), (100, 490), (10, 0)),
        ((200, 400), (250, 300), (0, 50)),
        ((200, 400), (205, 402), (0, 0)),
        ((200, 400), (700, 0), (0, 0)),
        ((None, 400), (1, 2), (None, 400)),
    ],
)
def test_pauses_are_subtracted_from_total_cpu_time(used: Any, paused: Any, left: Any) -> None:
    found = without_pauses(replace(NOTHING, user_ns=used[0], system_ns=used[1], major_faults=7), paused)
    assert found == replace(NOTHING, user_ns=left[0], system_ns=left[1], major_faults=7)


@pytest.mark.claim("CPU time of building inputs and checking answers is not the clients'")
@everywhere
def test_usage_excludes_time_before_clients_are_ready(clients: int, how: str) -> None:
    burn(150)
    hot = Phase("made-up", "made up", "op", writes=False, temperature="hot")
    # Operations run twice: in the warm-up and in the measured round.
    tally = run(Burning(operation=50), clients, how, hot)
    assert 0.9 * 200 * clients <= used_ms(tally) <= 200 * clients + 150


def in_a_process_namespace() -> list[str]:
    """Returns the command that runs another one as process 1 of a new namespace, as in a container."""
    unshare = shutil.which("unshare")
    for more in ([], ["--user", "--map-root-user"]):
        command = [str(unshare), *more, "--pid", "--fork"]
        if unshare and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    pytest.skip("no process namespaces here")


def test_worker_survives_if_parent_is_pid_1() -> None:
    child = "import os; from dyno.host.process import die_with_parent; die_with_parent(os.getppid()); print('alive')"
    parent = f"import os, subprocess, sys; assert os.getpid() == 1; subprocess.run([sys.executable, '-c', {child!r}])"
    command = [*in_a_process_namespace(), sys.executable, "-c", parent]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "alive\n"
