"""Latencies in an HdrHistogram: constant memory, merged without loss, kept in its interchange format.

1 ns to 1 hour at 3 significant digits. The library records a value at a time in Python, which is too slow for a
loop; `Recorder` finds the buckets of a whole slice at once, by the same arithmetic, and the library encodes,
decodes and answers percentiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

LOWEST, HIGHEST, DIGITS = 1, 3_600_000_000_000, 3
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def _empty() -> HdrHistogram:
    return HdrHistogram(LOWEST, HIGHEST, DIGITS)


_LAYOUT = _empty()


class Recorder:
    """Counts latencies by bucket."""

    def __init__(self) -> None:
        self.counts = np.zeros(_LAYOUT.counts_len, dtype=np.int64)

    def add(self, spans_ns: Sequence[int]) -> None:
        """Adds latencies, each cut to the histogram's range."""
        values = np.asarray(spans_ns, dtype=np.int64).clip(LOWEST, HIGHEST)
        self.counts += np.bincount(_buckets(values), minlength=len(self.counts))

    def merge(self, other: Recorder) -> None:
        self.counts += other.counts

    def encode(self) -> str | None:
        """HdrHistogram's compressed interchange format, as base64; None where nothing was recorded."""
        filled = np.flatnonzero(self.counts)
        if not len(filled):
            return None
        histogram = _empty()
        for index in filled.tolist():
            value = histogram.get_value_from_index(index)
            histogram.record_value(value, int(self.counts[index]))
        encoded: bytes = histogram.encode()
        return encoded.decode()


def _buckets(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of each value's counter."""
    magnitude = _LAYOUT.sub_bucket_half_count_magnitude
    # The exponent of frexp is the number of bits; float64 holds every value below 2 ** 53 exactly.
    bits = np.frexp((values | _LAYOUT.sub_bucket_mask).astype(np.float64))[1]
    bucket = bits.astype(np.int64) - (magnitude + 1)
    index: NDArray[np.int64] = ((bucket + 1) << magnitude) + (values >> bucket) - _LAYOUT.sub_bucket_half_count
    return index


def percentiles(encoded: Iterable[str | None]) -> dict[str, int | None]:
    """p50 to p999 and max, in ns, of all the histograms together; None for each where there are none."""
    merged = _empty()
    for text in encoded:
        if text is not None:
            try:
                merged.decode_and_add(text)
            # The library raises another exception for each way in which text is no histogram.
            except Exception as error:
                raise ValueError(f"not a histogram: {error}") from None
    if not merged.get_total_count():
        return {**dict.fromkeys(PERCENTILES), "max": None}
    at = merged.get_percentile_to_value_dict(list(PERCENTILES.values()))
    found = {name: int(at[percentile]) for name, percentile in PERCENTILES.items()}
    return {**found, "max": int(merged.get_max_value())}
