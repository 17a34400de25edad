"""Builds the inputs of a client's next batch."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from dyno.contracts.pace import Pace
from dyno.measure import pipelined
from dyno.measure.batches import CACHED, FOREVER_NS
from dyno.measure.loop import Loop
from dyno.measure.memory_limit import MemoryLimit
from dyno.measure.position import ClientPosition
from dyno.measure.schedule import BatchScheduler
from dyno.measure.slices import InputQueue, Slice

OPEN_MOST = 2_000_000
"""Maximum number of operations of an open loop, for all clients together, whose inputs and answers are held in
memory."""
LOAD_TIMES = 3
"""Maximum time in which an open loop's inputs are built at once, as a multiple of the phase's duration."""


class InputLoader:
    """Fills the queues of a client, as far as memory and time allow."""

    def __init__(self, pace: Pace, position: ClientPosition, scheduler: BatchScheduler, loop: Loop) -> None:
        self._pace = pace
        self._position = position
        self._scheduler = scheduler
        self._loop = loop

    def memory_limit(self) -> MemoryLimit:
        """Returns the limit for the inputs of a batch."""
        return MemoryLimit(self._position.clients, self._loop.now(), self._scheduler.loaded_bytes, loading=True)

    def load(self, queue: InputQueue) -> None:
        """Builds as many inputs as the next batch needs."""
        wanted = self._scheduler.operations()
        now = self._loop.now
        memory = self.memory_limit()
        queue.load(
            lambda: queue.operations >= max(wanted, pipelined.wanted_operations(queue.waiting)) or memory.full(now())
        )

    def load_due(self, queue: InputQueue, queues: int = 1) -> None:
        """Builds the inputs of all operations that are due in the phase of an open loop, so that the schedule need
        not pause. `queues`: number of queues of this client, each of which gets an equal share of memory and time."""
        clients = self._position.clients * queues
        now = self._loop.now
        memory = MemoryLimit(clients, now())
        # A phase on several machines is one batch.
        if self._scheduler.whole:
            until = FOREVER_NS
        else:
            until = now() + LOAD_TIMES * self._pace.limit_ns // queues
        queue.load_due(self._pace.limit_ns, OPEN_MOST // clients, lambda: memory.full(now()) or now() > until)


def touch_inputs(queues: Iterable[InputQueue]) -> None:
    """Reads the next inputs: those built early have left the processor's caches, and the operations would wait for
    them."""
    left = CACHED
    for one in chain.from_iterable(queue.waiting for queue in queues):
        if isinstance(one, Slice) and left:
            # Only a copy to another type reads each input.
            left -= len(list(one.arguments[one.done : one.done + left]))
