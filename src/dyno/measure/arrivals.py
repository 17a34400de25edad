"""When the operations of an open loop are due. Nothing here reads a clock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.pace import POISSON

_AHEAD = 1_000


class Arrivals:
    """One client's moments, in ns since its phase began, on and on.

    `rate` is that of all clients together, in operations a second. Uniform: client c of n has every nth moment of
    the common grid. Poisson: independent exponential gaps, whose sum over the clients is a Poisson process again.
    """

    def __init__(self, rate: float, kind: str, client: int, clients: int, seed: int) -> None:
        self._gap_ns = clients / rate * 1e9
        self._offset_ns = (client + 1) / rate * 1e9
        self._rng = np.random.default_rng([seed, 4, client]) if kind == POISSON else None
        self._taken = 0
        self.last_ns = 0
        """The last moment that was taken."""
        self._last_ns = 0.0

    def take(self, count: int) -> NDArray[np.int64]:
        """The next moments."""
        due: NDArray[Any]
        if self._rng is not None:
            due = self._last_ns + np.cumsum(self._rng.exponential(self._gap_ns, count))
            self._last_ns = float(due[-1]) if count else self._last_ns
        else:
            # From the number, not by adding up: no rounding error grows.
            due = self._offset_ns + np.arange(self._taken, self._taken + count) * self._gap_ns
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
