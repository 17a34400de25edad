"""What becomes of acknowledged samples when a node of a cluster dies in the middle of `insert`: which were
acknowledged, and which of them those find who ask the nodes that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Thread
from time import monotonic, sleep
from typing import Any

import numpy as np

from dyno.contracts.engine import Nodes
from dyno.contracts.model import Fact, Refused, Wrong
from dyno.suites.series import verify
from dyno.suites.series.dataset import Dataset
from dyno.suites.series.port import SampleBatch, Series
from dyno.suites.series.samples import Digest, latest_versions

PATIENCE_SECONDS, AGAIN_SECONDS = 60.0, 0.5
"""That a cluster may take to find out that a node is gone, on a machine that has other things to do."""


class Survival:
    """One node, the last one, is killed at the batch that comes after so many per cent of all."""

    def __init__(self, server: Any, dataset: Dataset, percent: int) -> None:
        if not isinstance(server, Nodes) or server.count < 2:
            raise Refused("has no node to lose: kill_percent is for a cluster of Dyno's own")
        if server.copies < 2:
            raise Refused("keeps each sample once: no other node has a copy that could survive")
        if server.halts:
            raise Refused(server.halts)
        self._server, self._dataset = server, dataset
        batches = sum(1 for _ in dataset.arrivals())
        self._at = max(batches * percent // 100, 1)
        self.killed = False
        self._failed = set[int]()
        self._lost = 0
        self._acknowledged = 0

    def call(self, number: int, insert: Callable[[SampleBatch], object]) -> Callable[[SampleBatch], object]:
        """What inserts the batch of this number. With one of them the node dies, while it is on its way."""
        if number != self._at:
            return insert

        def dying(batch: SampleBatch) -> object:
            self.killed = True
            death = Thread(target=self._server.lose, args=(self._server.count - 1,))
            death.start()
            try:
                return insert(batch)
            finally:
                death.join()

        return dying

    def failed(self, number: int) -> None:
        """The batch was not acknowledged; some of its samples may be there all the same."""
        self._failed.add(number)

    def verify(self, found: Iterable[SampleBatch], batches: int) -> int:
        """What is found of the first `batches`, by who asks those that are left. Raises Wrong for what was never
        written, or is there twice; and for what was lost, where what is acknowledged survives a node's death."""
        if not self.killed:
            raise Wrong("the phase was over before the node was to be killed: give it a longer --budget")
        acknowledged, others = self._given(batches)
        pieces = [piece for piece in found if len(piece.ts)]
        for piece in pieces:
            verify.add_verified(Digest(), piece)
        there = _whole(pieces)
        keys = _keys(there)
        if len(np.unique(keys)) != len(keys):
            raise Wrong("after a node died, samples are there twice")
        foreign = ~np.isin(_rows(there), np.concatenate([_rows(acknowledged), _rows(others)]))
        if foreign.any():
            raise Wrong(f"after a node died, {int(foreign.sum()):,} samples are not as they were written")
        self._acknowledged = len(acknowledged.ts)
        self._lost = int((~np.isin(_keys(acknowledged), keys)).sum())
        if self._lost and self._server.survives:
            raise Wrong(f"{self._lost:,} of {self._acknowledged:,} acknowledged samples are lost with a node")
        return len(there.ts)

    def _given(self, batches: int) -> tuple[SampleBatch, SampleBatch]:
        """What was acknowledged, as it was written last; and what may have been written beside."""
        both: tuple[list[SampleBatch], list[SampleBatch]] = [], []
        for number, arrival in enumerate(self._dataset.arrivals()):
            if number < batches:
                both[number in self._failed].append(arrival.batch)
                if arrival.replaced is not None:
                    both[1].append(arrival.replaced)
        return SampleBatch(*latest_versions(_whole(both[0]))), _whole(both[1])

    def facts(self) -> Mapping[str, Fact]:
        return {
            "acknowledged_samples": self._acknowledged,
            "lost_samples": self._lost,
            "failed_batches": len(self._failed),
        }


def read_with_retries(port: Series) -> list[SampleBatch]:
    """All samples that the port has, asked for again while those that are left still ask the one that is gone."""
    deadline = monotonic() + PATIENCE_SECONDS
    while True:
        try:
            port.settle()
            return list(port.all())
        except Exception:
            if monotonic() > deadline:
                raise
        sleep(AGAIN_SECONDS)


def _whole(pieces: list[SampleBatch]) -> SampleBatch:
    empty = SampleBatch(*(np.zeros(0, dtype) for dtype in ("i4", "i8", "f8", "i2", "i2")))
    return SampleBatch(*(np.concatenate(parts) for parts in zip(empty, *pieces, strict=True)))


def _keys(of: SampleBatch) -> Any:
    return np.rec.fromarrays([of.pv, of.ts]).view(np.dtype((np.void, 12)))


def _rows(of: SampleBatch) -> Any:
    return np.rec.fromarrays(list(of)).view(np.dtype((np.void, 24)))
