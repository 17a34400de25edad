"""When clients fly and when they stand: all of them start together, and the clock stands still for all or for none.

Inputs are built and answers judged between two flights, while every client stands. So no client works off what
another has left idle, and throughput is what all of them did in the time in which all of them were at it. Nothing is
built, called or judged here.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

LEAD_NS = 300_000
"""From when the last client was ready to the start of all: the others have to wake up."""
SPIN_NS = 60_000
"""A sleep wakes late: the rest is spent looking at the clock."""
LEAST_NS = 5_000_000
"""A flight in which the start and the end of all clients weigh little."""
LEAST_SERVED_NS = 20_000_000
"""With a server, whose processes are looked at between two flights."""
OPERATIONS = 100
"""A flight is as long as so many operations of the slowest client, since it ends within one of them."""
GROWTH = 8
"""How many times as long as the one before it a flight is at most: the first one is a slice."""
MOST = 100_000
"""Operations of a client in a flight, whose inputs and answers are held."""
FOREVER_NS = 1 << 60
GONE, READY, STOP = 0, 1, 2


class Flights(Protocol):
    """Of one client, what it has to know of the others."""

    shared: bool
    """Whether the time of a flight is all clients' and not only this one's."""

    def take_off(self, state: int, now: Callable[[], int]) -> int | None:
        """Waits until every client is ready or gone; when to start on this client's clock. None where nobody has
        anything left to do, or one of them stops all."""

    def land(self, end: int, operations: int, most: int, now: Callable[[], int]) -> int:
        """Waits until every client is done; how long the flight took, until the last of them."""

    def length_ns(self) -> int:
        """How long the next flight is to be."""

    def operations(self) -> int:
        """For how many operations this client is to have inputs in the next flight."""


class Alone:
    """A single client without a server: its flights are its slices, one by one."""

    shared = False

    def __init__(self) -> None:
        self._begin = 0

    def take_off(self, state: int, now: Callable[[], int]) -> int | None:
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


class Formation:
    """What the clients of a phase share: threads of a process, or processes that are forked after it is made."""

    def __init__(self, barrier: Any, clients: int, least_ns: int = LEAST_NS) -> None:
        self.barrier, self.clients, self.least_ns = barrier, clients, least_ns
        self.board = np.frombuffer(mmap.mmap(-1, 8 * 5 * clients), dtype=np.int64).reshape(5, clients)
        """Of each client: its state, when it was ready and when it was done (both on the clock that all processes
        have), and its operations in the last flight and the most that it can have."""

    def member(self, client: int) -> Member:
        return Member(self, client)


class Member:
    """One of several clients."""

    shared = True

    def __init__(self, formation: Formation, client: int) -> None:
        self._formation, self._client = formation, client
        self._states, self._ready, self._done, self._operations, self._most = formation.board
        self._start = 0
        self._length_ns = self._last_ns = 0

    def take_off(self, state: int, now: Callable[[], int]) -> int | None:
        self._states[self._client], self._ready[self._client] = state, time.monotonic_ns()
        self._wait()
        if (self._states == STOP).any() or not (self._states == READY).any():
            return None
        self._start = int(self._ready.max()) + LEAD_NS
        while (left := self._start - time.monotonic_ns()) > SPIN_NS:
            time.sleep((left - SPIN_NS) / 1e9)
        while time.monotonic_ns() < self._start:
            pass
        return now() + self._start - time.monotonic_ns()

    def land(self, end: int, operations: int, most: int, now: Callable[[], int]) -> int:
        self._done[self._client] = time.monotonic_ns() + end - now()
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
            slowest, fastest = elapsed_ns / flew.min(), elapsed_ns / flew.max()
            wanted = max(self._formation.least_ns, OPERATIONS * slowest)
            held = self._most.min() * fastest / 2
            self._length_ns = int(min(wanted, GROWTH * elapsed_ns, max(held, slowest)))
        self._last_ns = elapsed_ns

    def length_ns(self) -> int:
        # The first has no length: it is a slice of each.
        return self._length_ns or FOREVER_NS

    def operations(self) -> int:
        mine = int(self._operations[self._client])
        if not self._length_ns or not mine:
            return 1
        # Half as many again as it did, so that no client runs dry while others fly on.
        return min(int(1.5 * mine * self._length_ns / self._last_ns) + 2, int(self._most[self._client]))

    def _wait(self) -> None:
        self._formation.barrier.wait()


class Single(Member):
    """The only client of a server, or of an open loop: its flights are as long as those of several."""

    def __init__(self, least_ns: int = LEAST_NS) -> None:
        super().__init__(Formation(None, 1, least_ns), 0)

    def take_off(self, state: int, now: Callable[[], int]) -> int | None:
        if state != READY:
            return None
        self._start = now()
        return self._start

    def land(self, end: int, operations: int, most: int, now: Callable[[], int]) -> int:
        self._operations[0], self._most[0] = operations, most
        elapsed = end - self._start
        self._plan(max(elapsed, 1))
        return elapsed
