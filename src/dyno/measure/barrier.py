"""A barrier between the processes of a phase's clients."""

import mmap
import threading
from time import monotonic_ns, sleep

import numpy as np

PATIENT_NS = 20_000_000
"""Time that a waiting client spins before it sleeps."""
NAP_NS = 50_000
"""Time that it sleeps between two checks."""


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
        arrivals = self._arrivals
        others = arrivals[1:]
        arrivals[client + 1] += 1
        mine = arrivals[client + 1]
        sleep_from = monotonic_ns() + self._spin_ns
        while (others < mine).any():
            if arrivals[0]:
                raise threading.BrokenBarrierError
            if monotonic_ns() > sleep_from:
                sleep(self.nap_ns / 1e9)

    def abort(self) -> None:
        self._arrivals[0] = 1
