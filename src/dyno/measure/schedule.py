"""Schedules the batches of all clients, and measures the pauses between batches.

All clients start a batch together, and the clock runs for all clients or for none: inputs are built and answers are
checked between two batches, while all clients stand still. So no client profits from cores that another leaves idle,
and throughput counts what all clients did while all of them were working.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from functools import cache
from time import monotonic_ns, sleep
from typing import Any, NamedTuple

import numpy as np

from dyno.host.procfs import input_bytes
from dyno.measure.client_states import ClientStates, State
from dyno.measure.loop import monotonic_ahead_ns

LEAD_NS = 200_000
"""Time from the moment when the last client is ready to the start, in which the other clients wake up."""
PATIENT_NS, NAP_NS = 20_000_000, 50_000
"""How long a waiting client spins, and how long it then sleeps between two checks."""
SPIN_NS = 200_000
"""A sleep wakes up late, so a client spins on the clock this long before the start."""
LEAST_NS = 5_000_000
"""Minimum length of a batch. With it, the start and the end of all clients weigh little."""
CACHED = 4_000
"""If operations are short, the batch ends after this number, before LEAST_NS: more inputs and answers would push the
engine's data, and each other, out of the processor's caches."""
LEAST_SERVED_NS = 20_000_000
"""Minimum length of a batch with a server, whose processes are measured between batches."""
OPERATIONS = 100
"""Minimum number of a client's operations in a batch, because a batch ends within an operation."""
DRAIN_SHARE = 0.02
"""A batch with a server is so long that its end, when clients wait for the last answers of others, took at most this
share of the batch before. Meanwhile the server has less to do."""
GROWTH = 8
"""Maximum length of a batch, as a multiple of the length of the batch before."""
MOST = 100_000
"""Maximum number of a client's operations in a batch: their inputs and answers are held in memory."""
MOST_WHOLE = 2_000_000
"""The same where a batch is the whole phase."""
FOREVER_NS = 1 << 60
"""Small enough that adding a time in ns doesn't overflow 64 bits."""
GONE, READY, STOP = 0, 1, 2
"""States of a client. GONE: it has nothing left to do. READY: it is ready for a batch. STOP: it stops all clients."""
HELD_BYTES = 512 << 20
"""Limit of the memory growth of all clients together in a batch. The batch then ends."""
OPEN_MOST = 2_000_000
"""Maximum number of operations of an open loop, for all clients together, whose inputs and answers are held in
memory."""
LOAD_TIMES = 3
"""Maximum time in which an open loop's inputs are built at once, as a multiple of the phase's duration."""
LAG_SHARE = 0.05
"""An open loop that is late by more than this share of its time can't hold its rate. Its batches become those of a
closed loop, whose memory doesn't depend on the rate."""
LOADED_BYTES = 64 << 20
"""Limit of the memory growth while the inputs of a batch are built. Large inputs make the batch shorter. It is less
in a process whose memory is limited: see `input_bytes`."""


@cache
def _loaded_bytes() -> int:
    return input_bytes(LOADED_BYTES)


# -- batches ------------------------------------------------------------------------------------------------------


class BatchTime(NamedTuple):
    """The durations of a batch, in ns from its start."""

    elapsed_ns: int
    """Up to the last client's last answer."""
    full_ns: int
    """Up to the moment when the first client had nothing left to do. 0 if a client had nothing to do at all."""


class RunBatch(NamedTuple):
    """A batch that a client has run. Moments are on the client's own clock."""

    idle: int
    """When the client had nothing left to do. With several connections: when the first of them had."""
    over: int
    operations: int
    record: Callable[[BatchTime], None]
    """Records and checks the batch, given its durations for all clients together."""


class SoloClient:
    """A single client without a server. Each of its slices is a batch. The methods are those of `SharedClient`."""

    shared = together = whole = lags = False
    by_slice = True
    horizon_ns = FOREVER_NS
    most = MOST

    def __init__(self) -> None:
        self._begin = 0

    def expect(self, operation_ns: float) -> None:
        pass

    def offer(self, horizon_ns: int, lags: bool) -> None:
        raise TypeError("an open loop is run by a SharedClient")

    def start(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        gathered()
        if state != READY:
            return None
        self._begin = now()
        return self._begin

    def finish(self, idle: int, end: int, operations: int, most: int, now: Callable[[], int]) -> BatchTime:
        return BatchTime(end - self._begin, idle - self._begin)

    def length_ns(self) -> int:
        return FOREVER_NS

    def operations(self) -> int:
        return 1

    @property
    def loaded_bytes(self) -> int:
        return _loaded_bytes()


class Barrier:
    """Barrier between processes, which must be forked after the barrier is created.

    If there is a core for each process, a waiting process spins, because sleeping would cost it its caches. If there
    are fewer cores, processes sleep, longer the more processes there are. 31 processes that check every 50 µs can
    keep a kernel from giving a core to any other process for many seconds, such as the server that the last client
    waits for.
    """

    def __init__(self, clients: int, awake: bool) -> None:
        self._arrivals = np.frombuffer(mmap.mmap(-1, 8 * (clients + 1)), dtype=np.int64)
        self._spin_ns = PATIENT_NS if awake else 0
        self.nap_ns = NAP_NS if awake else NAP_NS * clients
        """Maximum delay until a client notices that all have arrived."""

    def wait(self, client: int) -> None:
        """Waits for all clients. Raises BrokenBarrierError if the barrier was aborted."""
        arrivals, others = self._arrivals, self._arrivals[1:]
        arrivals[client + 1] += 1
        mine, sleep_from = arrivals[client + 1], monotonic_ns() + self._spin_ns
        while (others < mine).any():
            if arrivals[0]:
                raise threading.BrokenBarrierError
            if monotonic_ns() > sleep_from:
                sleep(self.nap_ns / 1e9)

    def abort(self) -> None:
        self._arrivals[0] = 1


class ClientGroup:
    """State that the clients of a phase share. The clients are threads of a process, or processes that are forked
    after the group is created. `whole_ns`: if not 0, the length of a phase that is one batch, if its inputs fit into
    the memory."""

    def __init__(
        self,
        barrier: Any,
        clients: int,
        served: bool = False,
        connections: int = 1,
        whole_ns: int = 0,
        states: ClientStates | None = None,
    ) -> None:
        self.barrier, self.clients, self.served, self.whole_ns = barrier, clients, served, whole_ns
        self.states = states or ClientStates(clients)
        self.batch_operations = OPERATIONS * connections
        self.least_ns = LEAST_SERVED_NS if served else LEAST_NS
        self.lead_ns = LEAD_NS + (barrier.nap_ns if isinstance(barrier, Barrier) else 0)
        self.board = np.frombuffer(mmap.mmap(-1, 8 * 9 * clients), dtype=np.int64).reshape(9, clients)
        """One column per client. The rows: its state; when it was ready, when it had nothing left to do, and when it
        was done, all on the monotonic clock; its operations in the last batch; the maximum number of operations in a
        batch; the ns of an operation in the warm-up, 0 if unknown; and for an open loop, see `SharedClient.offer`."""

    def client(self, client: int) -> SharedClient:
        return SharedClient(self, client)


class SharedClient:
    """A client of several. It starts and ends its batches together with the others."""

    shared = True
    """Whether all clients share one duration of a batch."""
    together = True
    """Whether there are other clients, so that the first operation waits for the common start."""

    def __init__(self, group: ClientGroup, client: int) -> None:
        self._group, self._client = group, client
        self._states, self._ready, self._idle, self._done, self._operations, self._most, self._known, *opened = (
            group.board
        )
        self._horizons, self._lags = opened
        self._start = 0
        self._expected_ns = 0.0
        self._length_ns = 0
        self._last_ns = 0

    @property
    def whole(self) -> bool:
        """Whether a batch is the whole phase."""
        return self._group.whole_ns > 0

    @property
    def most(self) -> int:
        """Maximum number of operations in a batch."""
        return MOST_WHOLE if self.whole else MOST

    @property
    def loaded_bytes(self) -> int:
        """Limit of the memory growth of all clients together while the inputs of a batch are built."""
        return HELD_BYTES if self.whole else _loaded_bytes()

    def expect(self, operation_ns: float) -> None:
        """Sets the duration of an operation, as measured in the warm-up. Without it, the first batch is a single
        slice."""
        self._expected_ns, self._known[self._client] = operation_ns, max(int(operation_ns), 1)

    def offer(self, horizon_ns: int, lags: bool) -> None:
        """Sets the time of the phase up to which this client of an open loop has inputs, and whether it lags behind
        its schedule. Called before `start`."""
        self._horizons[self._client], self._lags[self._client] = horizon_ns, lags

    @property
    def horizon_ns(self) -> int:
        """The time of the phase up to which all clients have inputs."""
        return int(self._horizons.min())

    @property
    def by_slice(self) -> bool:
        """Whether each slice is a batch."""
        return False

    @property
    def lags(self) -> bool:
        """Whether a client lags behind its schedule."""
        return bool(self._lags.any())

    def start(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        """Waits until every client is ready or gone. Returns the start of the batch, a moment in the near future on
        this client's clock. Returns None if no client has anything left to do, or if one stops all. `gathered` is
        called when all clients have arrived."""
        self._states[self._client], self._ready[self._client] = state, monotonic_ns()
        self._wait(State.ENGINE if state == READY else State.OTHERS)
        gathered()
        if (self._states == STOP).any() or not (self._states == READY).any():
            return None
        self._start = int(self._ready.max()) + self._group.lead_ns
        while (left := self._start - monotonic_ns()) > SPIN_NS:
            sleep((left - SPIN_NS) / 1e9)
        return self._start - monotonic_ahead_ns(now)

    def finish(self, idle: int, end: int, operations: int, most: int, now: Callable[[], int]) -> BatchTime:
        """Waits until every client has ended its batch. `idle`: when this client had nothing left to do. If it has
        several connections, that is when the first of them had; `end` is when the last one had."""
        ahead_ns = monotonic_ahead_ns(now)
        self._idle[self._client] = idle + ahead_ns
        self._done[self._client] = end + ahead_ns
        self._operations[self._client], self._most[self._client] = operations, most
        self._wait(State.CHECKS)
        active = self._operations > 0
        elapsed = int(self._done[active].max()) - self._start if active.any() else 0
        full = int(self._idle.min()) - self._start if active.all() else 0
        return self._planned(BatchTime(max(elapsed, 0), max(full, 0)))

    def _planned(self, time: BatchTime) -> BatchTime:
        """Sets the length of the next batch. Every client computes the same length, from the shared board."""
        done = self._operations[self._operations > 0]
        elapsed_ns = max(time.elapsed_ns, 1)
        if len(done):
            # The mean of all clients rather than the slowest: a client that lost its core for a moment is not slower.
            mean, fastest = elapsed_ns * len(done) / done.sum(), elapsed_ns / done.max()
            wanted = self._wanted_ns(mean)
            if self._group.served and time.full_ns:
                wanted = max(wanted, (elapsed_ns - time.full_ns) / DRAIN_SHARE)
            held = self._most.min() * fastest / 2
            self._length_ns = int(min(wanted, GROWTH * elapsed_ns, max(held, mean)))
        self._last_ns = elapsed_ns
        return time

    def _wanted_ns(self, operation_ns: float) -> float:
        """Returns the least length of a batch. `operation_ns`: time of one of this client's operations."""
        least = self._group.least_ns
        if not self._group.served:
            least = int(min(least, CACHED * operation_ns))
        return max(least, self._group.batch_operations * operation_ns)

    def length_ns(self) -> int:
        """Returns the length of the next batch."""
        if self.whole:
            return FOREVER_NS
        if self._length_ns:
            return self._length_ns
        # If a client does not know how long an operation takes, the first batch is one slice of each client.
        known = self._known.min()
        return int(self._wanted_ns(float(known))) if known else FOREVER_NS

    def operations(self) -> int:
        """Returns the number of operations for which this client should have inputs in the next batch."""
        mine = int(self._operations[self._client])
        if self.whole:
            expected = self._group.whole_ns / self._expected_ns if self._expected_ns else MOST
            return min(int(1.5 * expected) + 1, self.most)
        if not self._length_ns or not mine:
            if not self._expected_ns:
                return 1
            return min(int(1.5 * self._wanted_ns(self._expected_ns) / self._expected_ns) + 1, MOST)
        # 50 % more than in the last batch, so that no client runs out of inputs while the others continue.
        return min(int(1.5 * mine * self._length_ns / self._last_ns) + 2, int(self._most[self._client]))

    def _wait(self, then: State) -> None:
        barrier, states = self._group.barrier, self._group.states
        states.enter(self._client, State.OTHERS)
        if isinstance(barrier, Barrier):
            barrier.wait(self._client)
        else:
            barrier.wait()
        states.enter(self._client, then)


class SingleClient(SharedClient):
    """The only client of a server or of an open loop. Its batches are as long as those of several clients."""

    together = False

    @property
    def by_slice(self) -> bool:
        """Whether each slice is a batch. Without a server, an open loop that lags has the batches of `SoloClient`."""
        return self.lags and not self._group.served

    def __init__(self, served: bool = False, connections: int = 1, whole_ns: int = 0) -> None:
        super().__init__(ClientGroup(None, 1, served, connections, whole_ns), 0)

    def start(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        gathered()
        if state != READY:
            return None
        self._start = now()
        return self._start

    def finish(self, idle: int, end: int, operations: int, most: int, now: Callable[[], int]) -> BatchTime:
        self._operations[0], self._most[0] = operations, most
        return self._planned(BatchTime(end - self._start, idle - self._start))


BatchScheduler = SoloClient | SharedClient
