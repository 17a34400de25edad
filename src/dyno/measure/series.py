"""Latencies over the time of a phase."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.histogram import Recorder, quantile

if TYPE_CHECKING:
    from dyno.contracts.decoded_types import Point

SECOND_NS = 1_000_000_000
MOST_POINTS = 600
"""Maximum number of points of a series. If there would be more, the interval is doubled: ten minutes are stored by
the second, an hour by eight seconds."""

Sparse = tuple[NDArray[np.intp], NDArray[np.int64]]


class Series:
    """Latencies by interval of one second, or of 2, 4, 8 seconds and so on for long phases, in bounded memory. Times
    are the client's measured time, which stops while inputs are built and answers are checked."""

    def __init__(self) -> None:
        self.interval_ns = SECOND_NS
        self._past: dict[int, Sparse] = {}
        self._at = 0
        self._now = Recorder()
        self._empty = True

    def add(self, ends_ns: NDArray[np.int64], spans_ns: NDArray[np.int64]) -> None:
        """Adds operations in the order of their ends, which count from the start of the phase."""
        if not len(ends_ns):
            return
        places = ends_ns // self.interval_ns
        first, last = int(places[0]), int(places[-1])
        if first == last:
            self._record(first, spans_ns)
        else:
            bounds = np.searchsorted(places, np.arange(first, last + 2))
            for place, (low, high) in enumerate(pairwise(bounds), first):
                if low < high:
                    self._record(place, spans_ns[low:high])
        while max(self._at, *self._past, 0) >= MOST_POINTS:
            self._widen()

    def _record(self, place: int, spans_ns: NDArray[np.int64]) -> None:
        if place != self._at:
            self._close()
            self._at = place
        self._now.add(spans_ns)
        self._empty = False

    def _close(self) -> None:
        """Moves the current interval to the past intervals, which store only filled counters."""
        if not self._empty:
            filled = np.flatnonzero(self._now.counts)
            self._put(self._at, (filled, self._now.counts[filled]))
            self._now.counts[:] = 0
            self._empty = True

    def _put(self, place: int, sparse: Sparse) -> None:
        if place in self._past:
            indices = np.concatenate([self._past[place][0], sparse[0]])
            counts = np.concatenate([self._past[place][1], sparse[1]])
            indices, inverse = np.unique(indices, return_inverse=True)
            sparse = indices, np.bincount(inverse, counts, len(indices)).astype(np.int64)
        self._past[place] = sparse

    def _widen(self) -> None:
        self._close()
        past, self._past = self._past, {}
        self.interval_ns *= 2
        self._at //= 2
        for place, sparse in past.items():
            self._put(place // 2, sparse)

    def merge(self, other: Series) -> None:
        """Adds another client's series, as if both clients had been one."""
        self._close()
        other._close()
        while self.interval_ns < other.interval_ns:
            self._widen()
        while other.interval_ns < self.interval_ns:
            other._widen()
        for place, sparse in other._past.items():
            self._put(place, sparse)

    def points(self) -> tuple[Point, ...]:
        """Returns a point for each interval in which an operation ended; empty if all ended in the first interval."""
        self._close()
        if len(self._past) < 2:
            return ()
        return tuple(
            {
                "from_ns": place * self.interval_ns,
                "interval_ns": self.interval_ns,
                "operations": int(sparse[1].sum()),
                "p50_ns": quantile(*sparse, 50.0),
                "p99_ns": quantile(*sparse, 99.0),
            }
            for place, sparse in sorted(self._past.items())
        )
