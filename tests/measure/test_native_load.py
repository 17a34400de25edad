"""Tests native load between the suites and the loop: slices become requests, and responses become answers that are
checked."""

from __future__ import annotations

import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from wire_responses import RESPONSES, value_of

from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Wrong
from dyno.contracts.native_load import Exchange, NativeCall, NativePair, Rows
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Failure, Operations
from dyno.measure.batches import BatchRules
from dyno.measure.client_states import ClientStates
from dyno.measure.driver import measure
from dyno.measure.schedule import READY, SingleClient

native = pytest.importorskip("dyno._native")
if not hasattr(native, "Wire"):
    pytest.skip("native load needs 64-bit Linux", allow_module_level=True)

SECOND = 10**9
CLIENTS = 4


def counted(recorder: Recorder) -> int:
    return int(recorder.counts.sum())


def double(number: int) -> bytes:
    return b":%d\r\n" % (2 * number)


def serve(peer: socket.socket, respond: Callable[[int], bytes]) -> None:
    """Answers `DOUBLE n` until the connection is closed."""
    with peer, peer.makefile("rwb", buffering=0) as stream:
        while stream.readline():
            lines = [stream.readline() for _ in range(4)]
            stream.write(respond(int(lines[3])))


@contextmanager
def servers(respond: Callable[[int], bytes]) -> Iterator[list[socket.socket]]:
    """Yields a connection for each client to a server that answers `DOUBLE n`."""
    pairs = [socket.socketpair() for _ in range(CLIENTS)]
    threads = [threading.Thread(target=serve, args=(theirs, respond), daemon=True) for _, theirs in pairs]
    for thread in threads:
        thread.start()
    try:
        yield [ours for ours, _ in pairs]
    finally:
        for ours, _ in pairs:
            ours.close()
        for thread in threads:
            thread.join(10)


@contextmanager
def servers_of_their_own(respond: Callable[[int], bytes]) -> Iterator[list[socket.socket]]:
    """Like `servers`, but in another process, whose threads don't hold up the interpreter of the clients."""
    pairs = [socket.socketpair() for _ in range(CLIENTS)]
    if not (pid := os.fork()):
        for ours, _ in pairs:
            ours.close()
        threads = [threading.Thread(target=serve, args=(theirs, respond)) for _, theirs in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0)
    try:
        for _, theirs in pairs:
            theirs.close()
        yield [ours for ours, _ in pairs]
    finally:
        for ours, _ in pairs:
            ours.close()
        os.waitpid(pid, 0)


class Port:
    """A port on one connection, as a suite sees it."""

    def __init__(self, connection: socket.socket) -> None:
        self.exchange = Exchange("redis", connection.fileno(), encrypted=False)
        self.double = NativeCall(self._double, self.exchange)

    def _double(self, number: int) -> int:
        return int(self.exchange.ask(native.redis(("DOUBLE", number))))


class Suite:
    """Suite whose slices check that each number was doubled."""

    def __init__(self, sockets: list[socket.socket], slices: int = 3, size: int = 50) -> None:
        self.ports = [Port(each) for each in sockets]
        self.slices, self.size = slices, size
        self.failed: list[Failure] = []

    def rounds(self, client: int, number: int) -> Iterator[Operations]:
        for part in range(self.slices):
            numbers = [1000 * client + 100 * part + at for at in range(self.size)]
            yield Operations(
                lambda _: (self.ports[client].double,),
                numbers,
                partial(self.check, numbers),
                weights=[2] * self.size,
                kinds=["even" if each % 2 == 0 else "odd" for each in numbers],
            )

    def check(self, numbers: list[int], answers: list[Any]) -> int:
        for number, answer in zip(numbers, answers, strict=False):
            if type(answer) is Failure:
                self.failed.append(answer)
            elif answer != 2 * number:
                raise Wrong(f"{number} became {answer}")
        return len(answers)

    def measure(self, scheduler: SingleClient | None = None, states: ClientStates | None = None, **pace: Any) -> Any:
        from dyno.measure.native_load import NativeClients

        wire = native.Wire("redis", [port.exchange.descriptor for port in self.ports])
        each = {client: partial(self.rounds, client) for client in range(CLIENTS)}
        make = partial(NativeClients, wire, each, CLIENTS, states or ClientStates(CLIENTS))
        scheduler = scheduler or SingleClient(BatchRules(served=True, connections=CLIENTS))
        return measure(lambda n: iter(()), Pace(**pace), lambda: None, scheduler=scheduler, make=make)


def test_all_client_operations_are_timed_and_checked() -> None:
    with servers(double) as sockets:
        tally = Suite(sockets).measure()
    assert tally.operations == tally.checked == CLIENTS * 150 and tally.items == 2 * tally.operations
    assert counted(tally.latency) == tally.operations and tally.void is None and tally.ended_by == "count"
    assert {kind: counted(latency) for kind, latency in tally.by_kind.items()} == {"even": 300, "odd": 300}
    assert 0 < tally.busy_ns <= tally.elapsed_ns


def test_unanswered_connection_is_described_as_late_client() -> None:
    states = ClientStates(CLIENTS)
    seen = list[str | None]()

    def respond(number: int) -> bytes:
        while number == 2005 and not (seen and seen[-1]):
            time.sleep(0.02)
            seen.append(states.describe_late())
        return double(number)

    with servers(respond) as sockets:
        tally = Suite(sockets, slices=1).measure(states=states)
    assert tally.operations == CLIENTS * 50 and states.describe_late() is None
    assert re.fullmatch(r"client 2 waited \d+\.\d s for an answer", seen[-1] or "")


def test_duration_repeats_rounds_and_excludes_warm_up() -> None:
    with servers(double) as sockets:
        tally = Suite(sockets).measure(duration_ns=SECOND // 5, warmup_ns=SECOND // 20)
    assert tally.ended_by == "duration" and tally.operations > 0 and tally.elapsed_ns >= SECOND // 5
    assert tally.checked >= tally.operations


def test_single_wrong_answer_voids_the_phase() -> None:
    with servers(lambda number: double(number + (number == 2101))) as sockets:
        assert "2101 became 4204" in Suite(sockets).measure().void


TOGETHER = 1_000
"""Responses to one request, so that a scripted peer answers 100,000 times in a moment."""


class Values:
    """A port whose operation has many responses, and returns their values."""

    def __init__(self, protocol: str, connection: socket.socket) -> None:
        self.exchange = Exchange(protocol, connection.fileno(), encrypted=False)
        self.values = NativeCall(self._values, self.exchange)

    def _values(self, number: int) -> list[bytes]:
        answers = self.exchange.ask(((b"%09d\n" % number, TOGETHER),))
        return [value_of(self.exchange.protocol, answer) for answer in answers]


def value(number: int, at: int) -> bytes:
    return b"value %03d %03d" % (number, at)


@pytest.mark.parametrize("flipped", [None, 0, 57_123, 99_999])
@pytest.mark.parametrize("protocol", RESPONSES)
def test_phase_is_void_exactly_when_response_bit_flips(protocol: str, flipped: int | None) -> None:
    """The peer is scripted. It flips one bit in the value of one response."""
    from dyno.measure.native_load import NativeClients

    def serve(peer: socket.socket) -> None:
        with peer, peer.makefile("rwb", buffering=0) as stream:
            while line := stream.readline():
                number = int(line)
                values = [bytearray(value(number, at)) for at in range(TOGETHER)]
                if flipped is not None and number == flipped // TOGETHER:
                    values[flipped % TOGETHER][6] ^= 1
                peer.sendall(b"".join(RESPONSES[protocol](bytes(each)) for each in values))

    def check(numbers: list[int], answers: list[Any]) -> int:
        for number, answer in zip(numbers, answers, strict=False):
            for at, each in enumerate(answer):
                if each != value(number, at):
                    raise Wrong(f"{value(number, at)!r} became {each!r}")
        return len(answers) * TOGETHER

    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs,), daemon=True)
    thread.start()
    with ours:
        port, numbers = Values(protocol, ours), list(range(100))
        work = Operations(lambda _: (port.values,), numbers, partial(check, numbers))
        wire, each = native.Wire(protocol, [ours.fileno()]), {0: lambda _: iter([work])}
        make = partial(NativeClients, wire, each, 1, ClientStates(1))
        tally = measure(
            lambda n: iter(()), Pace(), lambda: None, scheduler=SingleClient(BatchRules(served=True)), make=make
        )
    thread.join(10)
    assert tally.operations == 100
    if flipped is None:
        assert tally.void is None and tally.checked == 100_000
    else:
        assert f"b'value {flipped // TOGETHER:03} {flipped % TOGETHER:03}' became" in (tally.void or "")


def test_an_error_response_is_a_failed_operation() -> None:
    with servers(lambda number: b"-ERR busy\r\n" if number % 10 == 3 else double(number)) as sockets:
        suite = Suite(sockets)
        tally = suite.measure()
    assert tally.errors == len(suite.failed) == CLIENTS * 15 and tally.first_error == "ERR busy"
    assert counted(tally.latency) == tally.operations - tally.errors


def test_an_open_loop_keeps_its_rate() -> None:
    with servers(double) as sockets:
        tally = Suite(sockets).measure(duration_ns=SECOND // 2, rate=200.0)
    assert 95 <= tally.operations <= 105 and 95 <= tally.due <= 105
    assert len(tally.by_client) == CLIENTS and sum(tally.by_client) == tally.operations
    assert counted(tally.response) == tally.operations


class WaitsForPeers(SingleClient):
    """The only client process of these, although others have work for another batch when it is out of time."""

    peers_have_work = True

    def start(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        start = super().start(state, now, gathered)
        if state == READY or not self.peers_have_work:
            return start
        self.peers_have_work = False
        self._start = now()
        return self._start


def test_process_out_of_time_runs_no_more_batches() -> None:
    with servers(double) as sockets:
        scheduler = WaitsForPeers(BatchRules(served=True, connections=CLIENTS))
        tally = Suite(sockets).measure(scheduler, duration_ns=SECOND // 20, rate=200.0)
    assert not scheduler.peers_have_work
    assert tally.void is None and tally.ended_by == "duration" and tally.operations > 0


@pytest.mark.serial
@pytest.mark.usefixtures("processes")
@pytest.mark.claim("A closed loop of N clients keeps N operations under way")
@pytest.mark.parametrize("stalls", [0.0, 0.01], ids=["exponential", "stalls"])
def test_closed_loop_clients_of_slow_server_stay_busy(stalls: float) -> None:
    """By Little's law, throughput times mean latency is the number of clients. The first batch ends before its
    operations' latencies are known."""
    draws = random.Random(1)

    def respond(number: int) -> bytes:
        time.sleep(draws.expovariate(1 / 0.002) + 0.02 * (draws.random() < stalls))
        return double(number)

    with servers_of_their_own(respond) as sockets:
        tally = Suite(sockets, slices=1, size=5).measure(duration_ns=SECOND)
    tally.exclude_idle_time(CLIENTS)
    assert tally.void is None and tally.operations > 200
    latencies_ns = sum(value * count for value, count in tally.latency.pairs())
    assert latencies_ns / tally.elapsed_ns >= 0.97 * CLIENTS


def test_lost_server_raises_connection_error() -> None:
    def stop() -> None:
        # The first loss ends the test, which closes the others.
        with suppress(OSError):
            for each in sockets:
                each.shutdown(socket.SHUT_RDWR)

    with servers(lambda number: double(number) if number % 100 < 20 else b"") as sockets:
        suite = Suite(sockets)
        threading.Timer(0.3, stop).start()
        with pytest.raises(ConnectionError, match=f"of {CLIENTS}"):
            suite.measure()


# -- a port's methods as requests and answers -----------------------------------------------------------------------


def test_a_pair_of_calls_is_one_operation() -> None:
    exchange = Exchange("redis", 0, encrypted=False)
    get = NativeCall(lambda key: exchange.ask(b"get " + key), exchange)
    put = NativeCall(lambda pair: exchange.ask(((b"put " + pair[0], 2),)), exchange)
    both = NativePair(get, put, lambda pair: pair[0])
    assert both.request((b"a", 1)) == ((b"get a", 1), (b"put a", 2))
    assert both.answer((b"a", 1), ["old", "x", "y"]) == ("old", ["x", "y"])


def test_operations_that_native_load_cannot_run_are_refused() -> None:
    exchange = Exchange("redis", 0, encrypted=False)
    silent = NativeCall(lambda argument: argument, exchange)
    with pytest.raises(TypeError, match="no request"):
        silent.request(1)
    twice = NativeCall(lambda argument: exchange.ask(exchange.ask(b"first")), exchange)
    assert twice.request(1) == b"first"
    with pytest.raises(TypeError, match="depend on responses"):
        twice.answer(1, b"second")
    assert not exchange.active


def test_rows_behave_like_a_database_cursor() -> None:
    assert (Rows(3).rowcount, Rows(3).fetchone(), Rows(3).fetchall()) == (3, None, [])
    assert (Rows([(1,), (2,)]).rowcount, Rows([(1,), (2,)]).fetchone()) == (2, (1,))
