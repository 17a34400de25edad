"""Latencies in an HdrHistogram: constant memory, merged without loss, kept in its interchange format.

1 ns to 1 hour at 3 significant digits. The library records a value at a time in Python, which is too slow for a
loop; `Recorder` finds the buckets of a whole slice at once, by the same arithmetic (natively where that was built),
and the library encodes and decodes. Percentiles are found here too, since it walks over every counter in Python.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
from hdrh.codec import HdrHistogramEncoder
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

try:
    from dyno._native import record as _record
except ImportError:
    _record = None  # type: ignore[assignment]

LAYOUT = LOWEST, HIGHEST, DIGITS = 1, 3_600_000_000_000, 3
MOST, FULL = 2.0**63, "it counts more than there is room for"
HEADER_BYTES = 8
PLAIN, UNPACKED_BYTES = 10_000, 1 << 20
"""A text of so many characters is unpacked without a look, to ten MB at most; a longer one if it has no more bytes
than a histogram of ours could have."""
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


def _empty() -> HdrHistogram:
    return HdrHistogram(LOWEST, HIGHEST, DIGITS)


_LAYOUT = _empty()


class Recorder:
    """Counts latencies by bucket."""

    def __init__(self) -> None:
        self.counts = np.zeros(_LAYOUT.counts_len, dtype=np.int64)

    def add(self, spans_ns: Sequence[int] | NDArray[np.int64]) -> None:
        """Adds latencies, each cut to the histogram's range."""
        values = np.ascontiguousarray(spans_ns, dtype=np.int64)
        if _record is not None:
            _record(self.counts, values, _LAYOUT.sub_bucket_half_count_magnitude, HIGHEST)
        else:
            found = _buckets(values.clip(LOWEST, HIGHEST))
            self.counts += np.bincount(found, minlength=len(self.counts))

    def add_many(self, value_ns: int, count: int) -> None:
        """Adds a latency so many times."""
        single = Recorder()
        single.add([value_ns])
        self.counts += single.counts * count

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


def quantile(indices: NDArray[np.intp], counts: NDArray[np.int64], percentile: float) -> int:
    """A percentile in ns of the filled counters of a histogram, in the order of their indices: as `percentiles`."""
    at = np.cumsum(counts)
    # Of as many as no float counts, the rank may come out one too high.
    rank = min(max(int(percentile * int(at[-1]) / 100 + 0.5), 1), int(at[-1]))
    value = _LAYOUT.get_value_from_index(int(indices[np.searchsorted(at, rank)]))
    return int(_LAYOUT.get_highest_equivalent_value(value))


def merged(encoded: Iterable[str | None]) -> NDArray[np.int64]:
    """The counters of all the histograms together. Raises ValueError for what is not one of ours."""
    counts = np.zeros(_LAYOUT.counts_len, dtype=np.int64)
    try:
        for text in encoded:
            if text is not None:
                counts += _decoded(text)
                if counts.min() < 0:
                    raise ValueError(FULL)
        if counts.sum(dtype=np.float64) >= MOST:
            raise ValueError(FULL)
    # The library raises another exception for each way in which text is no histogram.
    except Exception as error:
        raise ValueError(f"not a histogram: {error}") from None
    return counts


def _decoded(text: str) -> NDArray[np.int64]:
    """The counters alone: a histogram of the library's costs more to make than to decode."""
    if len(text) > PLAIN:
        _check_unpacked(text)
    found = HdrHistogramEncoder.decode(text)
    layout = found.payload
    if (layout.lowest_trackable_value, layout.highest_trackable_value, layout.significant_figures) != LAYOUT:
        raise ValueError("of another range or precision")
    found.init_counts(_LAYOUT.counts_len)
    return np.frombuffer(found.get_counts(), dtype=np.int64)


def _check_unpacked(text: str) -> None:
    """Raises ValueError for what would fill the memory: the library unpacks it whole."""
    packed = zlib.decompressobj()
    packed.decompress(base64.b64decode(text)[HEADER_BYTES:], UNPACKED_BYTES)
    if packed.unconsumed_tail:
        raise ValueError(f"over {UNPACKED_BYTES:,} bytes")


def percentiles(encoded: Iterable[str | None]) -> dict[str, int | None]:
    """p50 to p999 and max, in ns, of all the histograms together; None for each where there are none."""
    wanted = {**PERCENTILES, "max": 100.0}
    found = [text for text in encoded if text is not None]
    # Most samples have no response times.
    counts = merged(found) if found else np.empty(0, dtype=np.int64)
    filled = np.flatnonzero(counts != 0)
    if not len(filled):
        return dict.fromkeys(wanted)
    counts = counts[filled]
    return {name: quantile(filled, counts, at) for name, at in wanted.items()}


def curve(encoded: Iterable[str | None], at: Sequence[float]) -> list[tuple[float, int]]:
    """The percentiles `at` in ns, of all the histograms together, as far as there is a value beyond each: the 99.99th
    of a hundred values would be their largest, and say nothing of a tail. Nothing where there are no histograms."""
    found = [text for text in encoded if text is not None]
    counts = merged(found) if found else np.empty(0, dtype=np.int64)
    filled = np.flatnonzero(counts != 0)
    counts = counts[filled]
    known = [percentile for percentile in at if (100 - percentile) * counts.sum() >= 99.999]
    return [(percentile, quantile(filled, counts, percentile)) for percentile in known]
