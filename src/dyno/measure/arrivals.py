"""The schedule of an open loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.pace import POISSON
from dyno.measure.loop import Times

AHEAD = 1_000
"""Number of times that are drawn at once to count arrivals."""
MOST_DRAWN = 1_000_000


class Arrivals:
    """The times at which a client's operations of an open loop are due, in ns from the start of its phase. They never
    end.

    `rate` is that of all clients together, in operations per second. Client c of n gets every nth time of one common
    process: an even grid (uniform), or exponential gaps (Poisson). So all clients have equally much to do and end at
    about the same time. If each client had its own process, the slowest would end the phase.
    """

    def __init__(self, rate: float, kind: str, client: int, clients: int, seed: int) -> None:
        self._client, self._clients = client, clients
        self._gap_ns = 1 / rate * 1e9
        # Each client draws the times of all clients, so that clients need not communicate.
        self._rng = np.random.default_rng([seed, 4]) if kind == POISSON else None
        self._taken = 0
        self.last_ns = 0
        """The last time that `take` returned."""
        self._last_ns = 0.0

    def take(self, count: int) -> Times:
        """Returns the next `count` times."""
        due: NDArray[np.generic]
        if self._rng is not None:
            every = self._last_ns + np.cumsum(self._rng.exponential(self._gap_ns, count * self._clients))
            if count:
                self._last_ns = float(every[-1])
            due = every[self._client :: self._clients]
        else:
            # Computed by multiplication rather than by adding up, so that no rounding error grows.
            due = (np.arange(self._taken, self._taken + count) * self._clients + self._client + 1) * self._gap_ns
        self._taken += count
        rounded: Times = np.rint(due).astype(np.int64)
        if count:
            self.last_ns = int(rounded[-1])
        return rounded

    def take_until(self, moment_ns: int) -> int:
        """Takes all times up to `moment_ns` and returns their number. Of very many, returns the number expected at
        the rate: drawing 10^10 would take minutes."""
        count = 0
        while self.last_ns <= moment_ns:
            if (expected := int((moment_ns - self.last_ns) / (self._gap_ns * self._clients))) > MOST_DRAWN:
                return expected
            count += int((self.take(AHEAD) <= moment_ns).sum())
        return count
