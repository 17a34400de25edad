"""Schedules the batches of all clients.

All clients start a batch together, and the clock runs for all clients or for none: inputs are built and answers are
checked between two batches, while all clients stand still. So no client profits from cores that another leaves idle,
and throughput counts what all clients did while all of them were working.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic_ns, sleep

from dyno.measure.barrier import Barrier
from dyno.measure.batches import FOREVER_NS, MOST, BatchPlanner, BatchRules, BatchTime, Board
from dyno.measure.client_states import ClientStates, State
from dyno.measure.loop import monotonic_ahead_ns
from dyno.measure.memory_limit import loaded_bytes

LEAD_NS = 200_000
"""Time from the moment when the last client is ready to the start, in which the other clients wake up."""
SPIN_NS = 200_000
"""A sleep wakes up late, so a client spins on the clock this long before the start."""
GONE = 0
READY = 1
STOP = 2
"""States of a client. GONE: it has nothing left to do. READY: it is ready for a batch. STOP: it stops all clients."""


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
        return loaded_bytes()


class ClientGroup:
    """State that the clients of a phase share. The clients are threads of a process, or processes that are forked
    after the group is created."""

    def __init__(
        self,
        barrier: Barrier | threading.Barrier,
        clients: int,
        rules: BatchRules | None = None,
        states: ClientStates | None = None,
    ) -> None:
        self.barrier = barrier
        self.rules = rules or BatchRules()
        self.states = states or ClientStates(clients)
        self.lead_ns = LEAD_NS + (barrier.nap_ns if isinstance(barrier, Barrier) else 0)
        self.board = Board(clients)

    def client(self, client: int) -> SharedClient:
        return SharedClient(self, client)


class _BatchClient:
    """A client whose batches have a planned length."""

    shared = True
    """Whether all clients share one duration of a batch."""
    together: bool
    """Whether there are other clients, so that the first operation waits for the common start."""

    def __init__(self, board: Board, client: int, rules: BatchRules) -> None:
        self._board = board
        self._client = client
        self._rules = rules
        self._planner = BatchPlanner(board, client, rules)
        self._start = 0

    @property
    def whole(self) -> bool:
        """Whether a batch is the whole phase."""
        return self._rules.whole_ns > 0

    @property
    def most(self) -> int:
        """Maximum number of operations in a batch."""
        return self._rules.most

    @property
    def loaded_bytes(self) -> int:
        """Limit of the memory growth of all clients together while the inputs of a batch are built."""
        return self._rules.loaded_bytes

    def expect(self, operation_ns: float) -> None:
        """See `BatchPlanner.expect`."""
        self._planner.expect(operation_ns)

    def offer(self, horizon_ns: int, lags: bool) -> None:
        """Sets the time of the phase up to which this client of an open loop has inputs, and whether it lags behind
        its schedule. Called before `start`."""
        self._board.horizons[self._client] = horizon_ns
        self._board.lags[self._client] = lags

    @property
    def horizon_ns(self) -> int:
        """The time of the phase up to which all clients have inputs."""
        return int(self._board.horizons.min())

    @property
    def lags(self) -> bool:
        """Whether a client lags behind its schedule."""
        return bool(self._board.lags.any())

    def length_ns(self) -> int:
        """Returns the length of the next batch."""
        return self._planner.length_ns()

    def operations(self) -> int:
        """Returns the number of operations for which this client should have inputs in the next batch."""
        return self._planner.operations()


class SharedClient(_BatchClient):
    """A client of several. It starts and ends its batches together with the others."""

    together = True
    by_slice = False
    """Whether each slice is a batch."""

    def __init__(self, group: ClientGroup, client: int) -> None:
        super().__init__(group.board, client, group.rules)
        self._group = group

    def start(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        """Waits until every client is ready or gone. Returns the start of the batch, a moment in the near future on
        this client's clock. Returns None if no client has anything left to do, or if one stops all. `gathered` is
        called when all clients have arrived."""
        board = self._board
        board.states[self._client] = state
        board.ready[self._client] = monotonic_ns()
        self._wait(State.ENGINE if state == READY else State.OTHERS)
        gathered()
        if (board.states == STOP).any() or not (board.states == READY).any():
            return None
        self._start = int(board.ready.max()) + self._group.lead_ns
        while (left := self._start - monotonic_ns()) > SPIN_NS:
            sleep((left - SPIN_NS) / 1e9)
        return self._start - monotonic_ahead_ns(now)

    def finish(self, idle: int, end: int, operations: int, most: int, now: Callable[[], int]) -> BatchTime:
        """Waits until every client has ended its batch. `idle`: when this client had nothing left to do. If it has
        several connections, that is when the first of them had; `end` is when the last one had."""
        board = self._board
        ahead_ns = monotonic_ahead_ns(now)
        board.idle[self._client] = idle + ahead_ns
        board.done[self._client] = end + ahead_ns
        board.operations[self._client] = operations
        board.most[self._client] = most
        self._wait(State.CHECKS)
        active = board.operations > 0
        elapsed = 0
        if active.any():
            elapsed = int(board.done[active].max()) - self._start
        full = 0
        if active.all():
            full = int(board.idle.min()) - self._start
        time = BatchTime(max(elapsed, 0), max(full, 0))
        self._planner.add(time)
        return time

    def _wait(self, then: State) -> None:
        barrier = self._group.barrier
        states = self._group.states
        states.enter(self._client, State.OTHERS)
        if isinstance(barrier, Barrier):
            barrier.wait(self._client)
        else:
            barrier.wait()
        states.enter(self._client, then)


class SingleClient(_BatchClient):
    """The only client of a server or of an open loop. Its batches are as long as those of several clients."""

    together = False

    def __init__(self, rules: BatchRules | None = None) -> None:
        super().__init__(Board(1), 0, rules or BatchRules())

    @property
    def by_slice(self) -> bool:
        """Whether each slice is a batch. Without a server, an open loop that lags has the batches of `SoloClient`."""
        return self.lags and not self._rules.served

    def start(self, state: int, now: Callable[[], int], gathered: Callable[[], None]) -> int | None:
        gathered()
        if state != READY:
            return None
        self._start = now()
        return self._start

    def finish(self, idle: int, end: int, operations: int, most: int, now: Callable[[], int]) -> BatchTime:
        self._board.operations[0] = operations
        self._board.most[0] = most
        time = BatchTime(end - self._start, idle - self._start)
        self._planner.add(time)
        return time


BatchScheduler = SoloClient | SharedClient | SingleClient
