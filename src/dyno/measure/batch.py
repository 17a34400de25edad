"""When clients fly and when they stand: all of them start together, and the clock stands still for all or for none.

Inputs are built and answers judged between two flights, while every client stands. So no client works off what
another has left idle, and throughput is what all of them did in the time in which all of them were at it. Nothing is
built, called or judged here.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from time import monotonic_ns, sleep
from typing import Any, Protocol

import numpy as np

LEAD_NS = 200_000
"""From when the last client was ready to the start of all: the others have to wake up."""
PATIENT_NS, NAP_NS = 20_000_000, 50_000
"""How long who waits for others stays awake, and how long it then sleeps between two looks."""
SPIN_NS = 200_000
"""A sleep wakes late: so long before the start a client is awake, and then looks at the clock."""
LEAST_NS = 5_000_000
"""A flight in which the start and the end of all clients weigh little."""
CACHED = 2_000
"""Or one of so many operations, where that takes less long: the inputs and answers of more would push the engine's
own data, and each other, out of the processor's caches."""
LEAST_SERVED_NS = 20_000_000
"""With a server, whose processes are looked at between two flights."""
OPERATIONS = 100
"""A flight is as long as so many operations of a client, since it ends within one of them."""
GROWTH = 8
"""How many times as long as the one before it a flight is at most: the first one is a slice."""
MOST = 100_000
"""Operations of a client in a flight, whose inputs and answers are held."""
FOREVER_NS = 1 << 60
GONE, READY, STOP = 0, 1, 2


class BatchScheduler(Protocol):
    """Of one client, what it has to know of the others."""

    shared: bool
    """Whether the time of a flight is all clients' and not only this one's."""
    together: bool
    """Whether there are others, so that the first operation waits for the moment to start."""

    def expect(self, operation_ns: float) -> None:
        """How long an operation took beforehand: else the first flight is a slice, to see."""

    def take_off(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        """Waits until every client is ready or gone; when to start, on this client's clock: a moment soon to come.
        None where nobody has anything left to do, or one stops all. `gathered` is called when all are there."""

    def land(self, end: int, operations: int, most: int, now: Callable[[], int]) -> int:
        """Waits until every client is done; how long the flight took, until the last of them."""

    def length_ns(self) -> int:
        """How long the next flight is to be."""

    def operations(self) -> int:
        """For how many operations this client is to have inputs in the next flight."""


class SoloClient:
    """A single client without a server: its flights are its slices, one by one."""

    shared = together = False

    def __init__(self) -> None:
        self._begin = 0

    def expect(self, operation_ns: float) -> None:
        pass

    def take_off(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        gathered()
        if state != READY:
            return None
        self._begin = now()
        return self._begin

    def land(self, end: int, operations: int, most: int, now: Callable[[], int]) -> int:
        return end - self._begin

    def length_ns(self) -> int:
        return FOREVER_NS

    def operations(self) -> int:
        return 1


class Barrier:
    """A barrier of processes that are forked after it is made: each looks whether the others have come.

    Where there is a core for each it does not sleep meanwhile: one that slept has lost what it had in its caches.
    Where there is none, the more of them there are the longer each sleeps: where 31 look every 50 µs, a kernel may
    let nobody else have a core for many seconds, such as the server that the last one waits for.
    """

    def __init__(self, clients: int, awake: bool) -> None:
        self._came = np.frombuffer(mmap.mmap(-1, 8 * (clients + 1)), dtype=np.int64)
        self._pause_ns = PATIENT_NS if awake else 0
        self.nap_ns = NAP_NS if awake else NAP_NS * clients
        """By how much later one may see that all are there."""

    def wait(self, client: int) -> None:
        """Raises BrokenBarrierError once somebody has aborted it."""
        came, others = self._came, self._came[1:]
        came[client + 1] += 1
        mine, sleep_from = came[client + 1], monotonic_ns() + self._pause_ns
        while (others < mine).any():
            if came[0]:
                raise threading.BrokenBarrierError
            if monotonic_ns() > sleep_from:
                sleep(self.nap_ns / 1e9)

    def abort(self) -> None:
        self._came[0] = 1


class ClientGroup:
    """What the clients of a phase share: threads of a process, or processes that are forked after it is made."""

    def __init__(self, barrier: Any, clients: int, served: bool = False) -> None:
        self.barrier, self.clients, self.served = barrier, clients, served
        self.least_ns = LEAST_SERVED_NS if served else LEAST_NS
        self.lead_ns = LEAD_NS + (barrier.nap_ns if isinstance(barrier, Barrier) else 0)
        self.board = np.frombuffer(mmap.mmap(-1, 8 * 6 * clients), dtype=np.int64).reshape(6, clients)
        """Of each client: its state, when it was ready and when it was done (both on the clock that all processes
        have), its operations in the last flight and the most that it can have, and how many ns one took beforehand,
        0 where it does not know."""

    def member(self, client: int) -> SharedClient:
        return SharedClient(self, client)


class SharedClient:
    """One of several clients."""

    shared = together = True

    def __init__(self, formation: ClientGroup, client: int) -> None:
        self._formation, self._client = formation, client
        self._states, self._ready, self._done, self._operations, self._most, self._known = formation.board
        self._start = 0
        self._expected_ns = 0.0
        self._length_ns = self._last_ns = 0

    def expect(self, operation_ns: float) -> None:
        self._expected_ns, self._known[self._client] = operation_ns, max(int(operation_ns), 1)

    def take_off(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        self._states[self._client], self._ready[self._client] = state, monotonic_ns()
        self._wait()
        gathered()
        if (self._states == STOP).any() or not (self._states == READY).any():
            return None
        self._start = int(self._ready.max()) + self._formation.lead_ns
        while (left := self._start - monotonic_ns()) > SPIN_NS:
            sleep((left - SPIN_NS) / 1e9)
        return now() + self._start - monotonic_ns()

    def land(self, end: int, operations: int, most: int, now: Callable[[], int]) -> int:
        self._done[self._client] = monotonic_ns() + end - now()
        self._operations[self._client], self._most[self._client] = operations, most
        self._wait()
        flew = self._operations > 0
        elapsed = int(self._done[flew].max()) - self._start if flew.any() else 0
        self._plan(max(elapsed, 1))
        return max(elapsed, 0)

    def _plan(self, elapsed_ns: int) -> None:
        """The next flight's length: every client comes to the same, of what all have told."""
        flew = self._operations[self._operations > 0]
        if len(flew):
            # The mean, and not the slowest: one that lost its core for a moment is no slower for it.
            mean, fastest = elapsed_ns * len(flew) / flew.sum(), elapsed_ns / flew.max()
            wanted = max(self._least_ns(mean), OPERATIONS * mean)
            held = self._most.min() * fastest / 2
            self._length_ns = int(min(wanted, GROWTH * elapsed_ns, max(held, mean)))
        self._last_ns = elapsed_ns

    def _least_ns(self, operation_ns: float) -> int:
        least = self._formation.least_ns
        return least if self._formation.served else int(min(least, CACHED * operation_ns))

    def length_ns(self) -> int:
        if self._length_ns:
            return self._length_ns
        # Where nobody knows how long it takes, the first has no length: it is a slice of each.
        known = self._known.min()
        return self._least_ns(float(known)) if known else FOREVER_NS

    def operations(self) -> int:
        mine = int(self._operations[self._client])
        if not self._length_ns or not mine:
            if not self._expected_ns:
                return 1
            return min(int(1.5 * self._least_ns(self._expected_ns) / self._expected_ns) + 1, MOST)
        # Half as many again as it did, so that no client runs dry while others fly on.
        return min(int(1.5 * mine * self._length_ns / self._last_ns) + 2, int(self._most[self._client]))

    def _wait(self) -> None:
        barrier = self._formation.barrier
        if isinstance(barrier, Barrier):
            barrier.wait(self._client)
        else:
            barrier.wait()


class SingleClient(SharedClient):
    """The only client of a server, or of an open loop: its flights are as long as those of several."""

    together = False

    def __init__(self, served: bool = False) -> None:
        super().__init__(ClientGroup(None, 1, served), 0)

    def take_off(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        gathered()
        if state != READY:
            return None
        self._start = now()
        return self._start

    def land(self, end: int, operations: int, most: int, now: Callable[[], int]) -> int:
        self._operations[0], self._most[0] = operations, most
        elapsed = end - self._start
        self._plan(max(elapsed, 1))
        return elapsed
