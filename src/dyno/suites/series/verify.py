"""Comparisons with the expected samples, also after the loss of a node. Every function here raises Wrong."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Thread
from time import monotonic, sleep

import numpy as np

from dyno.contracts.engine import Nodes
from dyno.contracts.equality import difference, expect, same
from dyno.contracts.model import Fact, Refused, Wrong
from dyno.suites.series.dataset import Dataset
from dyno.suites.series.port import DTYPES, FIELDS, Array, Buckets, SampleBatch, Samples, Series, downsample
from dyno.suites.series.samples import Digest, is_typed, latest_versions

MEAN_ERROR = 1e-12
"""Allowed error of a mean, relative to the largest value in its bucket. Engines may sum in any order."""
PATIENCE_SECONDS, RETRY_SECONDS = 60.0, 0.5
"""Time that a cluster on a busy machine may take to notice that a node is gone, and the interval of retries."""


def verify_samples(what: str, got: object, right: Samples) -> int:
    """Compares all fields exactly. Returns the number of compared samples."""
    if type(got) is not Samples:
        raise Wrong(f"{what}: got {type(got).__name__}, expected Samples")
    if type(got.ts) is np.ndarray and len(got.ts) != len(right.ts):
        raise Wrong(f"{what}: got {len(got.ts):,} samples, expected {len(right.ts):,}")
    return _expect_same(what, Samples._fields, got, right)


def verify_latest(got: object, right: SampleBatch) -> int:
    """Compares the last sample of each variable. `right` has the order of the variables."""
    if not is_typed(got):
        raise Wrong(f"the latest samples: {_kind(got)}")
    order = np.argsort(got.pv, kind="stable")
    if not same(got.pv[order], right.pv):
        raise Wrong(f"the latest samples are of {len(got.pv):,} variables, expected {len(right.pv):,}, each once")
    return _expect_same("the latest samples", FIELDS, [values[order] for values in got], right)


def verify_buckets(what: str, got: object, samples: Samples, bucket: int) -> int:
    """Compares buckets with the summaries of `samples`."""
    right = downsample(samples, bucket)
    if type(got) is not Buckets:
        raise Wrong(f"{what}: got {type(got).__name__}, expected Buckets")
    _expect_same(what, ("ts", "low", "high"), (got.ts, got.low, got.high), (right.ts, right.low, right.high))
    if type(got.mean) is not np.ndarray or got.mean.dtype != right.mean.dtype or len(got.mean) != len(right.mean):
        raise Wrong(f"{what}: mean: {difference(got.mean, right.mean)}")
    off = np.abs(got.mean - right.mean) > MEAN_ERROR * np.maximum(np.abs(right.low), np.abs(right.high))
    # Comparisons with NaN are false, so check for it separately.
    off |= ~np.isfinite(got.mean)
    if off.any():
        at = int(off.argmax())
        raise Wrong(f"{what}: mean at {at}, {difference(float(got.mean[at]), float(right.mean[at]))}")
    return len(right.ts)


def _expect_same(what: str, names: Sequence[str], got: Sequence[object], right: Sequence[Array]) -> int:
    """Compares columns exactly. Returns their length."""
    for name, values, wanted in zip(names, got, right, strict=True):
        expect(values, wanted, f"{what}: {name}")
    return len(right[0])


def verify_digest(digest: Digest, reference: Digest) -> int:
    if digest != reference:
        raise Wrong(f"the archive has {digest}, expected {reference}")
    return 1


def digest_of(pieces: Iterable[object], digest: Digest | None = None) -> Digest:
    """Returns the digest of batches of `Series.all`, added to `digest` if it is given."""
    digest = Digest() if digest is None else digest
    for piece in pieces:
        if not is_typed(piece):
            raise Wrong(f"a batch of all samples: {_kind(piece)}")
        digest.add(piece)
    return digest


def _kind(got: object) -> str:
    if type(got) is not SampleBatch:
        return f"got {type(got).__name__}, expected a SampleBatch"
    kinds = ", ".join(
        f"{values.dtype} of {len(values)}" if type(values) is np.ndarray and values.ndim else type(values).__name__
        for values in got
    )
    return f"got {kinds}"


# -- after the loss of a node -----------------------------------------------------------------------------------


class Survival:
    """Kills the cluster's last node while `insert` writes the batch that follows the first `percent` percent of all
    batches. Compares the acknowledged samples with those that the remaining nodes return."""

    def __init__(self, server: object, dataset: Dataset, percent: int) -> None:
        if not isinstance(server, Nodes) or server.count < 2:
            raise Refused("has no node to lose: kill_percent needs a cluster that Dyno starts")
        if server.copies < 2:
            raise Refused("keeps each sample once: kill_percent needs a second copy on another node")
        if server.halts:
            raise Refused(server.halts)
        self._server, self._dataset = server, dataset
        self._at = max(sum(1 for _ in dataset.arrivals()) * percent // 100, 1)
        self.killed = False
        self._failed = set[int]()
        self._lost = self._acknowledged = 0

    def call(self, number: int, insert: Callable[[SampleBatch], object]) -> Callable[[SampleBatch], object]:
        """Returns the function that inserts batch `number`, which for one batch also kills the node."""
        if number != self._at:
            return insert

        def insert_during_death(batch: SampleBatch) -> object:
            self.killed = True
            death = Thread(target=self._server.lose, args=(self._server.count - 1,))
            death.start()
            try:
                return insert(batch)
            finally:
                death.join()

        return insert_during_death

    def record_failure(self, number: int) -> None:
        """Records that a batch was not acknowledged. Some of its samples may be stored all the same."""
        self._failed.add(number)

    def verify(self, stored: Iterable[SampleBatch], batches: int) -> int:
        """Compares the samples that the remaining nodes return with the first `batches` batches. Returns their
        number. Raises Wrong for duplicates and for samples that were never written. If the server promises that
        acknowledged data survives the loss of a node, also raises it for lost samples."""
        if not self.killed:
            raise Wrong("the phase was over before the node was to be killed: give it a longer --budget")
        written, others = list[SampleBatch](), list[SampleBatch]()
        for number, arrival in enumerate(self._dataset.arrivals()):
            if number < batches:
                (others if number in self._failed else written).append(arrival.batch)
                if arrival.replaced is not None:
                    others.append(arrival.replaced)
        # The acknowledged samples in their last version. The others may be stored too.
        acknowledged = SampleBatch(*latest_versions(_concatenate(written)))
        pieces = [piece for piece in stored if len(piece.ts)]
        digest_of(pieces)
        whole = _concatenate(pieces)
        keys = _rows(whole.pv, whole.ts)
        if len(np.unique(keys)) != len(keys):
            raise Wrong("after a node died, samples are stored twice")
        foreign = ~np.isin(_rows(*whole), np.concatenate([_rows(*acknowledged), _rows(*_concatenate(others))]))
        if foreign.any():
            raise Wrong(f"after a node died, {int(foreign.sum()):,} samples are not as they were written")
        self._acknowledged = len(acknowledged.ts)
        self._lost = int((~np.isin(_rows(acknowledged.pv, acknowledged.ts), keys)).sum())
        if self._lost and self._server.survives:
            raise Wrong(f"{self._lost:,} of {self._acknowledged:,} acknowledged samples are lost with a node")
        return len(whole.ts)

    def facts(self) -> Mapping[str, Fact]:
        counts = {"acknowledged_samples": self._acknowledged, "lost_samples": self._lost}
        return {**counts, "failed_batches": len(self._failed)}


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


def _rows(*columns: Array) -> Array:
    """Returns an array of the bytes of each row."""
    rows = np.rec.fromarrays(columns)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize)))
