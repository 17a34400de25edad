"""Compares an archive's answers with the expected samples. Every function here raises Wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dyno.contracts.equality import array_difference, difference, same
from dyno.contracts.model import Wrong
from dyno.suites.series.port import Buckets, SampleBatch, Samples
from dyno.suites.series.samples import Digest, downsample, is_typed

MEAN_ERROR = 1e-12
"""Allowed error of a mean, relative to the largest value in its bucket. Engines may sum in any order."""


def verify_samples(what: str, got: Any, right: Samples) -> int:
    """Compares all fields exactly. Returns the number of compared samples."""
    if type(got) is not Samples:
        raise Wrong(f"{what}: got {type(got).__name__}, expected Samples")
    if type(got.ts) is np.ndarray and len(got.ts) != len(right.ts):
        raise Wrong(f"{what}: got {len(got.ts):,} samples, expected {len(right.ts):,}")
    for name, values, wanted in zip(Samples._fields, got, right, strict=True):
        if not same(values, wanted):
            raise Wrong(f"{what}: {name}: {array_difference(values, wanted)}")
    return len(right.ts)


def verify_latest(got: Any, right: SampleBatch) -> int:
    """Compares the last sample of each variable. `right` has the order of the variables."""
    if not is_typed(got):
        raise Wrong(f"the latest samples: {_kind(got)}")
    order = np.argsort(got.pv, kind="stable")
    if not same(got.pv[order], right.pv):
        raise Wrong(f"the latest samples are of {len(got.pv):,} variables, expected {len(right.pv):,}, each once")
    for name, values, wanted in zip(SampleBatch._fields, got, right, strict=True):
        if not same(values[order], wanted):
            raise Wrong(f"the latest samples: {name}: {array_difference(values[order], wanted)}")
    return len(right.pv)


def verify_buckets(what: str, got: Any, samples: Samples, bucket: int) -> int:
    """Compares buckets with the summaries of `samples`."""
    right = downsample(samples, bucket)
    if type(got) is not Buckets:
        raise Wrong(f"{what}: got {type(got).__name__}, expected Buckets")
    for name, values, wanted in zip(Buckets._fields, got, right, strict=True):
        if name != "mean" and not same(values, wanted):
            raise Wrong(f"{what}: {name}: {array_difference(values, wanted)}")
    if type(got.mean) is not np.ndarray or got.mean.dtype != right.mean.dtype or len(got.mean) != len(right.mean):
        raise Wrong(f"{what}: mean: {array_difference(got.mean, right.mean)}")
    off = np.abs(got.mean - right.mean) > MEAN_ERROR * np.maximum(np.abs(right.low), np.abs(right.high))
    # Comparisons with NaN are false, so check for it separately.
    off |= ~np.isfinite(got.mean)
    if off.any():
        at = int(off.argmax())
        raise Wrong(f"{what}: mean at {at}, {difference(float(got.mean[at]), float(right.mean[at]))}")
    return len(right.ts)


def verify_digest(digest: Digest, reference: Digest) -> int:
    if digest != reference:
        raise Wrong(f"the archive has {digest}, expected {reference}")
    return 1


def add_verified(digest: Digest, got: Any) -> None:
    """Adds a batch of `Series.all` to the digest, if it has the port's types."""
    if not is_typed(got):
        raise Wrong(f"a batch of all samples: {_kind(got)}")
    digest.add(got)


def digest_of(pieces: Iterable[Any]) -> Digest:
    """Returns the digest of all batches of `Series.all`."""
    digest = Digest()
    for piece in pieces:
        add_verified(digest, piece)
    return digest


def _kind(got: Any) -> str:
    if type(got) is not SampleBatch:
        return f"got {type(got).__name__}, expected a SampleBatch"
    kinds = ", ".join(
        f"{values.dtype} of {len(values)}" if type(values) is np.ndarray and values.ndim else type(values).__name__
        for values in got
    )
    return f"got {kinds}"
