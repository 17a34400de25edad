"""When the operations of an open loop are due. Nothing here reads a clock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.pace import POISSON

_AHEAD = 1_000


class Arrivals:
    """One client's moments, in ns since its phase began, on and on.

    `rate` is that of all clients together, in operations a second. Client c of n has every nth moment of what is
    common to all: uniform, an even grid; Poisson, a process with exponential gaps. So all have as much to do as the
    others, and are done at about the same time: a process of each client's own would end with the slowest one's.
    """

    def __init__(self, rate: float, kind: str, client: int, clients: int, seed: int) -> None:
        self._client, self._clients = client, clients
        self._gap_ns = 1 / rate * 1e9
        # Each client draws the whole process, and so needs to hear nothing from the others.
        self._rng = np.random.default_rng([seed, 4]) if kind == POISSON else None
        self._taken = 0
        self.last_ns = 0
        """The last moment that was taken."""
        self._last_ns = 0.0

    def take(self, count: int) -> NDArray[np.int64]:
        """The next moments."""
        due: NDArray[Any]
        if self._rng is not None:
            every = self._last_ns + np.cumsum(self._rng.exponential(self._gap_ns, count * self._clients))
            self._last_ns = float(every[-1]) if count else self._last_ns
            due = every[self._client :: self._clients]
        else:
            # From the number, not by adding up: no rounding error grows.
            due = (np.arange(self._taken, self._taken + count) * self._clients + self._client + 1) * self._gap_ns
        self._taken += count
        whole: NDArray[np.int64] = np.rint(due).astype(np.int64)
        self.last_ns = int(whole[-1]) if count else self.last_ns
        return whole

    def until(self, moment_ns: int) -> int:
        """Takes what comes up to a moment; how many these are."""
        found = 0
        while self.last_ns <= moment_ns:
            found += int((self.take(_AHEAD) <= moment_ns).sum())
        return found
