"""Tests how clients run batches together: they have a common start and elapsed time, the slowest sets the length, and
each has inputs for the whole batch. Also tests what a slice keeps if the end of a batch interrupts it.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import pytest
from clockwork import Clock, install

from dyno.contracts.pace import Pace
from dyno.contracts.suite import Bulk, Operations
from dyno.measure.barrier import NAP_NS, Barrier
from dyno.measure.batches import (
    CACHED,
    DRAIN_SHARE,
    GROWTH,
    LEAST_NS,
    MOST,
    OPERATIONS,
    BatchRules,
    BatchTime,
)
from dyno.measure.driver import measure
from dyno.measure.loop import monotonic_ahead_ns
from dyno.measure.position import ClientPosition
from dyno.measure.schedule import GONE, LEAD_NS, READY, STOP, ClientGroup, SharedClient, SingleClient
from dyno.measure.slices import InputQueue
from dyno.measure.tally import Tally

MS = 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return install(monkeypatch)


def nothing() -> None:
    pass


def together(clients: int, each: Callable[[SharedClient], Any]) -> list[Any]:
    """Runs `each` in one thread per client; returns the results."""
    group = ClientGroup(threading.Barrier(clients), clients)
    found: list[Any] = [None] * clients

    def run(client: int) -> None:
        found[client] = each(group.client(client))

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


# -- batches ----------------------------------------------------------------------------------------------


def test_all_clients_start_at_the_common_time() -> None:
    def each(member: SharedClient) -> tuple[int, int]:
        start = member.start(READY, time.monotonic_ns, nothing)
        assert start is not None
        return start, time.monotonic_ns()

    found = together(4, each)
    starts = [start for start, _ in found]
    # Each client converts the common start to its own clock, and may be interrupted between two readings.
    assert max(starts) - min(starts) < 50 * MS
    assert all(there >= min(starts) - MS for _, there in found)


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_waiting_clients_together_poll_at_single_client_rate() -> None:
    """The last client may itself wait for a server that needs a core. All waiting clients together check the barrier
    as often as one."""
    clients = 24
    meeting = Barrier(clients, False)
    looks = np.frombuffer(mmap.mmap(-1, 8 * clients), dtype=np.int64)
    begin, waiting = time.monotonic_ns(), []
    for client in range(1, clients):
        if not (pid := os.fork()):
            before = getrusage(RUSAGE_SELF).ru_nvcsw
            meeting.wait(client)
            looks[client] = getrusage(RUSAGE_SELF).ru_nvcsw - before
            os._exit(0)
        waiting.append(pid)
    time.sleep(0.5)
    meeting.wait(0)
    lasted = time.monotonic_ns() - begin
    for pid in waiting:
        os.waitpid(pid, 0)
    assert (looks[1:] > 0).all()
    assert looks.sum() <= 1.1 * lasted / NAP_NS + clients
    # The common start leaves time for a client that is still asleep.
    assert ClientGroup(meeting, clients).lead_ns >= LEAD_NS + meeting.nap_ns


def batch_times(operations: int) -> list[BatchTime]:
    """Runs a batch of three clients, which end after 100, 200 and 300 ms. The second has so many operations."""

    def each(member: SharedClient) -> BatchTime:
        start = member.start(READY, time.monotonic_ns, nothing)
        assert start is not None
        end = start + (1 + member._client) * 100 * MS
        done = operations if member._client == 1 else 10
        return member.finish(end, end, done, MOST, time.monotonic_ns)

    return together(3, each)


def test_batch_has_the_same_times_for_all_clients() -> None:
    times = batch_times(operations=10)
    assert len(set(times)) == 1
    assert abs(times[0].elapsed_ns - 300 * MS) < 50 * MS
    assert abs(times[0].full_ns - 100 * MS) < 50 * MS


def test_batch_with_idle_client_has_no_full_time() -> None:
    assert {time.full_ns for time in batch_times(operations=0)} == {0}


def test_served_batch_length_is_multiple_of_drain_time() -> None:
    served = SingleClient(BatchRules(served=True, connections=4))
    served.start(READY, lambda: 0, nothing)
    served.finish(90 * MS, 100 * MS, 10_000, MOST, lambda: 0)
    assert served.length_ns() == 10 * MS / DRAIN_SHARE


@pytest.mark.parametrize("early", [True, False])
def test_clock_offset_is_robust_to_preemption(early: bool) -> None:
    losses = iter([0.05, 0.05])

    def interrupted() -> int:
        moment = time.monotonic_ns() if early else None
        time.sleep(next(losses, 0))
        return moment or time.monotonic_ns()

    assert abs(monotonic_ahead_ns(interrupted)) < 20 * MS


@pytest.mark.parametrize(
    ("states", "go"),
    [([READY, READY], True), ([READY, GONE], True), ([GONE, GONE], False), ([READY, STOP], False)],
)
def test_batch_begins_with_work_unless_a_client_stops(states: list[int], go: bool) -> None:
    found = together(2, lambda member: member.start(states[member._client], time.monotonic_ns, nothing))
    assert [start is not None for start in found] == [go, go]


def landed(operations: int, elapsed_ns: int, most: int = MOST) -> SingleClient:
    """Returns a single client that has run one batch."""
    single = SingleClient()
    assert single.start(READY, lambda: 0, nothing) == 0
    assert single.finish(elapsed_ns, elapsed_ns, operations, most, lambda: 0) == (elapsed_ns, elapsed_ns)
    return single


def test_batches_grow_gradually_from_a_single_operation() -> None:
    assert SingleClient().operations() == 1
    lengths = []
    single, elapsed = SingleClient(), 1_000
    for _ in range(6):
        single.start(READY, lambda: 0, nothing)
        single.finish(elapsed, elapsed, max(elapsed // 10_000, 1), MOST, lambda: 0)
        lengths.append(single.length_ns())
        elapsed = single.length_ns()
    assert lengths[-1] == LEAST_NS
    assert all(after <= GROWTH * before for before, after in pairwise([1_000, *lengths]))


def test_batch_length_fits_many_operations_of_slowest_client() -> None:
    assert landed(100, 500 * MS).length_ns() == OPERATIONS * 5 * MS
    # The batch is shorter if the fastest client would have to hold too many operations.
    assert landed(100, 500 * MS, most=40).length_ns() == 20 * 5 * MS


def test_batch_of_short_operations_fits_in_caches() -> None:
    assert landed(10_000, MS).length_ns() == CACHED * 100
    known = SingleClient()
    known.expect(100.0)
    slow = SingleClient()
    slow.expect(1e9)
    assert slow.operations() >= 1
    assert known.length_ns() == CACHED * 100 and CACHED < known.operations() <= 2 * CACHED


def test_prepared_inputs_outlast_the_batch() -> None:
    single = landed(1_000, 5 * MS)
    assert single.operations() * 5_000 >= 1.4 * single.length_ns()
    assert 0 < landed(10**6, 5 * MS, most=1_000).operations() <= 1_000


# -- queue ------------------------------------------------------------------------------------------------


def numbers(*sizes: int) -> Callable[[int], Iterator[Operations | Bulk]]:
    return lambda round: (Operations(lambda _: (abs,), range(size), len) for size in sizes)


def test_slices_are_built_ahead_until_there_are_enough() -> None:
    queue = InputQueue(numbers(3, 3, 3))
    queue.load(lambda: queue.operations >= 4)
    assert (queue.operations, len(queue.waiting), queue.over) == (6, 2, False)
    queue.load(lambda: queue.operations >= 100)
    assert (queue.operations, queue.over) == (9, True)


@pytest.mark.parametrize(("ordered", "there"), [(False, 8), (True, 4)])
def test_only_ordered_rounds_wait_for_earlier_answers(ordered: bool, there: int) -> None:
    queue = InputQueue(numbers(2, 2), endless=True, ordered=ordered)
    queue.load(lambda: queue.operations >= 8)
    assert queue.operations == there
    queue.waiting.clear()
    queue.load(lambda: queue.operations >= 4)
    assert queue.operations == 4


# -- slices that take several batches ----------------------------------------------------------------------


def measured_with(slices: Sequence[Operations], scheduler: Any, **pace: Any) -> Any:
    return measure(
        lambda _: iter(slices), Pace(loop="python", **pace), lambda: None, ClientPosition(), scheduler=scheduler
    )


class Short(SingleClient):
    """Client with batches of 25 ns."""

    def length_ns(self) -> int:
        return 25

    def operations(self) -> int:
        return 4


def test_interrupted_slice_resumes_and_is_checked_once_whole(clock: Clock) -> None:
    judged: list[list[Any]] = []

    def check(answers: Sequence[Any]) -> int:
        judged.append(list(answers))
        clock.let_pass(10**9)
        return len(answers)

    calls = [clock.taking(10, answer) for answer in "ab"]
    work = [Operations(lambda _: calls, range(5), check, weights=[1, 10, 100, 1_000, 10_000], kinds=list("uvwxy"))]
    tally = measured_with([*work, Operations(lambda _: calls, range(2), check)], Short())
    # Batches have three, three and one operations: each ends with the first operation that ends after its deadline.
    assert judged == [["a", "b", "a", "b", "a"], ["a", "b"]]
    assert (tally.operations, tally.items, tally.checked, tally.elapsed_ns) == (7, 11_113, 7, 70)
    assert {kind: int(found.counts.sum()) for kind, found in tally.by_kind.items()} == dict.fromkeys("uvwxy", 1)
    assert tally.wall_ns >= 10**9


def test_slice_cut_by_budget_has_completed_part_checked(clock: Clock) -> None:
    judged: list[int] = []

    def count(answers: Sequence[object]) -> int:
        judged.append(len(answers))
        return 0

    work = Operations(lambda _: [clock.taking(10)], range(9), count)
    tally = measured_with([work], Short(), budget_ns=45)
    assert (judged, tally.operations, tally.ended_by) == ([5], 5, "budget")


@pytest.mark.claim("A transaction that holds many reads is timed from its opening")
def test_transaction_overhead_counts_in_elapsed_but_not_latency(clock: Clock) -> None:
    events: list[str] = []

    @contextmanager
    def reading() -> Iterator[Any]:
        events.append("opened")
        clock.let_pass(1_000)
        yield clock.taking(10)
        clock.let_pass(500)
        events.append("closed")

    held = reading()
    slices = [Operations(lambda call: [call], range(2), len, held=held) for _ in range(3)]
    for scheduler in (None, Short()):
        if scheduler:
            held = reading()
            slices = [Operations(lambda call: [call], range(2), len, held=held) for _ in range(3)]
        tally = measured_with(slices, scheduler)
        assert (tally.elapsed_ns, tally.busy_ns) == (1_560, 1_560)
        assert tally.wall_ns >= tally.elapsed_ns, "the end of the transaction is in both"
        assert int(tally.latency.counts.sum()) == 6
        assert np.flatnonzero(tally.latency.counts).tolist() == [10]
    assert events == ["opened", "closed"] * 2


class WaitsForPeers(SingleClient):
    """Client whose peers have work for three more batches when it has none left."""

    def __init__(self) -> None:
        super().__init__(BatchRules(served=True))
        self.batches_of_peers = 3

    def start(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        start = super().start(state, now, gathered)
        if start is None and self.batches_of_peers:
            self.batches_of_peers -= 1
            self._start = now()
            return self._start
        return start


def test_client_out_of_time_runs_no_more_batches(clock: Clock) -> None:
    peers = WaitsForPeers()
    work = Operations(lambda _: [clock.taking(10)], range(9), len)
    tally = measured_with([work], peers, budget_ns=45)
    assert peers.batches_of_peers == 0
    assert (tally.operations, tally.ended_by) == (5, "budget")


# -- rates of clients that are all at work -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("full_operations", "full_ns", "busy_ns", "elapsed_ns"),
    [
        # 900 of 1,000 operations in 0.9 s: the others ended slowly, while clients waited.
        (900, 900 * MS, 0, 1_000 * MS),
        # The last client went on alone after the others.
        (900, 450 * MS, 0, 500 * MS),
        # No client is busy for longer than the time.
        (900, 450 * MS, 1_200 * MS, 600 * MS),
        # Too few operations to know the rate.
        (499, 100 * MS, 0, 1_500 * MS),
        (0, 0, 0, 1_500 * MS),
    ],
)
def test_known_idle_time_at_batch_ends_is_excluded(
    full_operations: int, full_ns: int, busy_ns: int, elapsed_ns: int
) -> None:
    tally = Tally(operations=1_000, elapsed_ns=1_500 * MS, busy_ns=busy_ns)
    tally.full_operations = full_operations
    tally.full_ns = full_ns
    tally.exclude_idle_time(2)
    assert tally.elapsed_ns == elapsed_ns


class Later(SingleClient):
    """Client that starts in 1,000 ns, as if together with others."""

    together = True

    def start(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        start = super().start(state, now, gathered)
        if start is None:
            return None
        self._start = start + 1_000
        return self._start


@pytest.mark.parametrize("in_bulk", [False, True])
def test_no_operation_begins_before_all_clients_start(monkeypatch: pytest.MonkeyPatch, in_bulk: bool) -> None:
    clock = install(monkeypatch, reading=7)
    begun: list[int] = []
    scheduler = Later()

    def call(items: Any) -> None:
        begun.append(clock.at)
        list(items) if in_bulk else None

    many = Bulk(call, iter([[1, 2]]), 1, lambda answer, taken: taken)
    work: Any = many if in_bulk else Operations(lambda _: [call], [0], len)
    tally = measured_with([work], scheduler)
    assert begun and begun[0] >= scheduler._start
    assert tally.elapsed_ns >= 0


def test_bytes_and_parts_exclude_failed_operations(clock: Clock) -> None:
    def call(number: int) -> bytes:
        if number == 1:
            raise OSError
        return b"x" * number

    told = Operations(
        lambda _: [call],
        range(4),
        len,
        sizes=lambda answers: [len(answer) for answer in answers],
        parts=lambda answers: {"dns": [7 for _ in answers]},
    )
    known = Operations(lambda _: [call], range(4), len, sizes=[100] * 4)
    tally = measured_with([told], None)
    assert (tally.bytes, tally.errors, int(tally.by_part["dns"].counts.sum())) == (5, 1, 3)
    assert measured_with([known], None).bytes == 300
    assert measured_with([Operations(lambda _: [abs], range(3), len)], None).bytes is None


def test_pause_cpu_counts_engine_threads_not_checks() -> None:
    """A thread works while answers are checked; the check itself is not the engine's work."""
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            sum(range(1_000))

    def check(answers: Sequence[Any]) -> int:
        time.sleep(0.2)
        return len(answers)

    def quiet(answers: Sequence[Any]) -> int:
        begin = time.thread_time_ns()
        while time.thread_time_ns() - begin < 200 * MS:
            pass
        return len(answers)

    assert measured_with([Operations(lambda _: [abs], range(3), quiet)], None).pause_cpu_ns < 100 * MS
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert measured_with([Operations(lambda _: [abs], range(3), check)], None).pause_cpu_ns > 20 * MS
    finally:
        done.set()
        thread.join()
