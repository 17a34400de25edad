"""Survival of acknowledged samples when a node of a cluster dies in the middle of `insert`: compares the acknowledged
samples with those that the remaining nodes return."""

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
from dyno.suites.series.port import DTYPES, FIELDS, SAMPLE_BYTES, SampleBatch, Series
from dyno.suites.series.samples import latest_versions

PATIENCE_SECONDS, RETRY_SECONDS = 60.0, 0.5
"""Time that a cluster on a busy machine may take to notice that a node is gone, and the interval of retries."""


class Survival:
    """Kills the cluster's last node while `insert` writes the batch that follows the first `percent` percent of all
    batches."""

    def __init__(self, server: Any, dataset: Dataset, percent: int) -> None:
        if not isinstance(server, Nodes) or server.count < 2:
            raise Refused("has no node to lose: kill_percent needs a cluster that Dyno starts")
        if server.copies < 2:
            raise Refused("keeps each sample once: kill_percent needs a second copy on another node")
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
        """Returns the function that inserts batch `number`. For one batch, it also kills the node during the
        insert."""
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
        """Records that a batch was not acknowledged. Some of its samples may be stored all the same."""
        self._failed.add(number)

    def verify(self, stored: Iterable[SampleBatch], batches: int) -> int:
        """Compares the samples that the remaining nodes return with the first `batches` batches. Returns their
        number.

        Raises Wrong for duplicates and for samples that were never written. If the server promises that acknowledged
        data survives the loss of a node, also raises it for lost samples.
        """
        if not self.killed:
            raise Wrong("the phase was over before the node was to be killed: give it a longer --budget")
        acknowledged, others = self._written(batches)
        pieces = [piece for piece in stored if len(piece.ts)]
        verify.digest_of(pieces)
        whole = _concatenate(pieces)
        keys = _keys(whole)
        if len(np.unique(keys)) != len(keys):
            raise Wrong("after a node died, samples are stored twice")
        foreign = ~np.isin(_rows(whole), np.concatenate([_rows(acknowledged), _rows(others)]))
        if foreign.any():
            raise Wrong(f"after a node died, {int(foreign.sum()):,} samples are not as they were written")
        self._acknowledged = len(acknowledged.ts)
        self._lost = int((~np.isin(_keys(acknowledged), keys)).sum())
        if self._lost and self._server.survives:
            raise Wrong(f"{self._lost:,} of {self._acknowledged:,} acknowledged samples are lost with a node")
        return len(whole.ts)

    def _written(self, batches: int) -> tuple[SampleBatch, SampleBatch]:
        """Returns the acknowledged samples in their last version, and other versions and samples that may be
        stored."""
        acknowledged, others = list[SampleBatch](), list[SampleBatch]()
        for number, arrival in enumerate(self._dataset.arrivals()):
            if number < batches:
                (others if number in self._failed else acknowledged).append(arrival.batch)
                if arrival.replaced is not None:
                    others.append(arrival.replaced)
        return SampleBatch(*latest_versions(_concatenate(acknowledged))), _concatenate(others)

    def facts(self) -> Mapping[str, Fact]:
        return {
            "acknowledged_samples": self._acknowledged,
            "lost_samples": self._lost,
            "failed_batches": len(self._failed),
        }


def read_with_retries(port: Series) -> list[SampleBatch]:
    """Reads all samples, and retries until the remaining nodes have noticed the loss of a node."""
    deadline = monotonic() + PATIENCE_SECONDS
    while True:
        try:
            port.settle()
            return list(port.all())
        except Exception:
            if monotonic() > deadline:
                raise
        sleep(RETRY_SECONDS)


def _concatenate(pieces: list[SampleBatch]) -> SampleBatch:
    empty = SampleBatch(*(np.zeros(0, DTYPES[name]) for name in FIELDS))
    return SampleBatch(*(np.concatenate(parts) for parts in zip(empty, *pieces, strict=True)))


def _keys(batch: SampleBatch) -> Any:
    return np.rec.fromarrays([batch.pv, batch.ts]).view(np.dtype((np.void, 12)))


def _rows(batch: SampleBatch) -> Any:
    return np.rec.fromarrays(list(batch)).view(np.dtype((np.void, SAMPLE_BYTES)))
