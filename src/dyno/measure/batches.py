"""Batches: stretches of operations between two pauses. Which batches a client runs is decided from the figures that
all clients share."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dyno.measure.memory_limit import HELD_BYTES, loaded_bytes

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


class BatchTime(NamedTuple):
    """The durations of a batch, in ns from its start."""

    elapsed_ns: int
    """Up to the last client's last answer."""
    full_ns: int
    """Up to the moment when the first client had nothing left to do. 0 if a client had nothing to do at all."""


class RunBatch(NamedTuple):
    """A batch that a client has run. Moments are on the client's own clock."""

    idle: int
    """Moment from which the client had nothing left to do; with several connections, the first of them."""
    over: int
    operations: int
    record: Callable[[BatchTime], None]
    """Records and checks the batch, given its durations for all clients together."""


class Board:
    """Figures that the clients of a phase share: an array each, with one element per client. The clients may be
    processes that are forked after the board is created."""

    def __init__(self, clients: int) -> None:
        rows = iter(np.frombuffer(mmap.mmap(-1, 8 * 9 * clients), dtype=np.int64).reshape(9, clients))
        self.states = next(rows)
        self.ready = next(rows)
        """Moment at which each client was ready, on the monotonic clock."""
        self.idle = next(rows)
        """Moment from which it had nothing left to do."""
        self.done = next(rows)
        """Moment at which it was done."""
        self.operations = next(rows)
        """Operations in the last batch."""
        self.most = next(rows)
        """Maximum number of operations in a batch."""
        self.expected = next(rows)
        """Duration of an operation in the warm-up, in ns; 0 if unknown."""
        self.horizons = next(rows)
        """Time of the phase up to which a client of an open loop has inputs."""
        self.lags = next(rows)
        """Whether the client lags behind its schedule."""


@dataclass(frozen=True)
class BatchRules:
    """Limits of a phase's batches."""

    served: bool = False
    """Whether batches are long: a server is measured between them, or processes share cores."""
    connections: int = 1
    """Connections of each client."""
    whole_ns: int = 0
    """If not 0, the length of a phase that is one batch, if its inputs fit into the memory."""

    @property
    def most(self) -> int:
        """Maximum number of a client's operations in a batch."""
        if self.whole_ns:
            return MOST_WHOLE
        return MOST

    @property
    def loaded_bytes(self) -> int:
        """Limit of the memory growth of all clients together while the inputs of a batch are built."""
        if self.whole_ns:
            return HELD_BYTES
        return loaded_bytes()

    def least_ns(self, operation_ns: float) -> float:
        """Returns the least length of a batch. `operation_ns`: time of one of a client's operations."""
        if self.served:
            least = LEAST_SERVED_NS
        else:
            least = int(min(LEAST_NS, CACHED * operation_ns))
        return max(least, OPERATIONS * self.connections * operation_ns)


class BatchPlanner:
    """Plans the length of a client's next batch. Every client plans the same length, from the shared board."""

    def __init__(self, board: Board, client: int, rules: BatchRules) -> None:
        self._board = board
        self._client = client
        self._rules = rules
        self._expected_ns = 0.0
        self._length_ns = 0
        self._last_ns = 0

    def expect(self, operation_ns: float) -> None:
        """Sets the duration of an operation, as measured in the warm-up. Without it, the first batch is a single
        slice."""
        self._expected_ns = operation_ns
        self._board.expected[self._client] = max(int(operation_ns), 1)

    def add(self, time: BatchTime) -> None:
        """Plans the next batch by the time of the last one."""
        rules = self._rules
        operations = self._board.operations
        done = operations[operations > 0]
        elapsed_ns = max(time.elapsed_ns, 1)
        if len(done):
            # The mean of all clients rather than the slowest: a client that lost its core for a moment is not slower.
            mean = elapsed_ns * len(done) / done.sum()
            fastest = elapsed_ns / done.max()
            wanted = rules.least_ns(mean)
            if rules.served and time.full_ns:
                wanted = max(wanted, (elapsed_ns - time.full_ns) / DRAIN_SHARE)
            held = self._board.most.min() * fastest / 2
            self._length_ns = int(min(wanted, GROWTH * elapsed_ns, max(held, mean)))
        self._last_ns = elapsed_ns

    def length_ns(self) -> int:
        """Returns the length of the next batch."""
        if self._rules.whole_ns:
            return FOREVER_NS
        if self._length_ns:
            return self._length_ns
        # If a client does not know how long an operation takes, the first batch is one slice of each client.
        expected = self._board.expected.min()
        if expected:
            return int(self._rules.least_ns(float(expected)))
        return FOREVER_NS

    def operations(self) -> int:
        """Returns the number of operations for which this client should have inputs in the next batch."""
        rules = self._rules
        expected_ns = self._expected_ns
        if rules.whole_ns:
            if expected_ns:
                expected = rules.whole_ns / expected_ns
            else:
                expected = MOST
            return min(int(1.5 * expected) + 1, rules.most)
        mine = int(self._board.operations[self._client])
        if not self._length_ns or not mine:
            if not expected_ns:
                return 1
            return min(int(1.5 * rules.least_ns(expected_ns) / expected_ns) + 1, MOST)
        # 50 % more than in the last batch, so that no client runs out of inputs while the others continue.
        return min(int(1.5 * mine * self._length_ns / self._last_ns) + 2, int(self._board.most[self._client]))
