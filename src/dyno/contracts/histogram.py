"""Latencies in an HdrHistogram: constant memory, merged without loss, kept in its interchange format.

1 ns to 1 hour at 3 significant digits. The library records a value at a time in Python, which is too slow for a
loop; `Recorder` finds the buckets of a whole slice at once, by the same arithmetic (natively where that was built),
and the library encodes and decodes. Percentiles are found here too, since it walks over every counter in Python.
"""

from __future__ import annotations

import zlib
from binascii import a2b_base64
from collections.abc import Iterable, Sequence
from functools import cache
from struct import Struct

import numpy as np
from hdrh.codec import get_compression_cookie, get_encoding_cookie
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray
from pyhdrh import decode

from dyno.native import loaded

_record = getattr(loaded(), "record", None)
# Of the interchange format: cookie and length; cookie, length, offset, digits, lowest, highest and ratio.
_OUTER, _INNER = Struct(">II"), Struct(">IIIIQQd")
LAYOUT = LOWEST, HIGHEST, DIGITS = 1, 3_600_000_000_000, 3
MOST, FULL = 2.0**63, "it counts more than there is room for"
UNPACKED_BYTES = 1 << 20
"""More than a histogram of ours could have."""
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

    def encode(self) -> bytes | None:
        """HdrHistogram's compressed interchange format; None where nothing was recorded."""
        filled = np.flatnonzero(self.counts)
        if not len(filled):
            return None
        histogram = _empty()
        for index in filled.tolist():
            value = histogram.get_value_from_index(index)
            histogram.record_value(value, int(self.counts[index]))
        return a2b_base64(histogram.encode())


def _buckets(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of each value's counter."""
    magnitude = _LAYOUT.sub_bucket_half_count_magnitude
    # The exponent of frexp is the number of bits; float64 holds every value below 2 ** 53 exactly.
    bits = np.frexp((values | _LAYOUT.sub_bucket_mask).astype(np.float64))[1]
    bucket = bits.astype(np.int64) - (magnitude + 1)
    index: NDArray[np.int64] = ((bucket + 1) << magnitude) + (values >> bucket) - _LAYOUT.sub_bucket_half_count
    return index


@cache
def _ends() -> NDArray[np.int64]:
    """The highest value that each counter counts, as the library's `get_highest_equivalent_value`."""
    magnitude = _LAYOUT.sub_bucket_half_count_magnitude
    index = np.arange(_LAYOUT.counts_len, dtype=np.int64)
    bucket = np.maximum((index >> magnitude) - 1, 0)
    lowest = (index - (bucket << magnitude)) << bucket
    ends: NDArray[np.int64] = lowest + (1 << bucket) - 1
    return ends


def quantile(indices: NDArray[np.intp], counts: NDArray[np.int64], percentile: float) -> int:
    """A percentile in ns of the filled counters of a histogram, in the order of their indices: as `percentiles`."""
    return int(_ends()[indices[_places(counts, [percentile])[0]]])


def _places(counts: NDArray[np.int64], percentiles: Iterable[float]) -> NDArray[np.intp]:
    """Of the counters that have each percentile."""
    at = np.cumsum(counts)
    whole = int(at[-1])
    # Of as many as no float counts, the rank may come out one too high.
    ranks = [min(max(int(percentile * whole / 100 + 0.5), 1), whole) for percentile in percentiles]
    return np.searchsorted(at, ranks)


def _merged(encoded: Iterable[bytes | None]) -> tuple[int, NDArray[np.int64]]:
    """The first counter that is filled of all the histograms together, and all from there to the last; none where
    there are no histograms. Raises ValueError for what is not one of ours."""
    histograms = [found for found in encoded if found is not None]
    if not histograms:
        # Of most kinds of latencies a row has none.
        return 0, _NOTHING
    counts = _counts()
    try:
        low, high = _restore(counts, list(map(_content, histograms)), _INNER.size)
    # The libraries raise another exception for each way in which something is no histogram.
    except Exception as error:
        counts[:] = 0
        raise ValueError(f"not a histogram: {error}") from None
    # Few of the counters are filled, and next to each other.
    found = counts[low:high].copy()
    counts[low:high] = 0
    return low, found


def _content(whole: bytes) -> bytes:
    """The unpacked counters, behind a head. Without the library's classes, which clear 34,000 counters for each
    histogram."""
    packed_cookie, length = _OUTER.unpack_from(whole)
    if packed_cookie != get_compression_cookie() or length != len(whole) - _OUTER.size:
        raise ValueError("of another format")
    packed = zlib.decompressobj()
    content = packed.decompress(memoryview(whole)[_OUTER.size :], UNPACKED_BYTES)
    if packed.unconsumed_tail:
        raise ValueError(f"over {UNPACKED_BYTES:,} bytes")
    cookie, _, _, digits, lowest, highest, _ = _INNER.unpack_from(content)
    if cookie != get_encoding_cookie() or (lowest, highest, digits) != LAYOUT:
        raise ValueError("of another range or precision")
    return content


def restored(counts: NDArray[np.int64], histograms: Sequence[bytes], skip: int) -> tuple[int, int]:
    """Adds the counters of several histograms, each from `skip` bytes on, to `counts`, which are all zero: by the
    library's own function. The first that is not zero, and the one after the last. Raises ValueError, and others."""
    low, high, each = len(counts), 0, np.zeros_like(counts)
    for content in histograms:
        each[:] = 0
        decode(content, skip, each.ctypes.data, len(each), each.itemsize)
        counts += each
        if counts.min() < 0:
            raise ValueError(FULL)
        filled = np.flatnonzero(each)
        if len(filled):
            low, high = min(low, int(filled[0])), max(high, int(filled[-1]) + 1)
    # As whole numbers: the sum of floats may be rounded up to it.
    if sum(counts[low:high].tolist()) >= MOST:
        raise ValueError(FULL)
    return min(low, high), high


_restore = getattr(loaded(), "restore", restored)
_NOTHING = np.zeros(0, dtype=np.int64)


@cache
def _counts() -> NDArray[np.int64]:
    """All zero between two calls."""
    return np.zeros(_LAYOUT.counts_len, dtype=np.int64)


_TOLD = {**PERCENTILES, "max": 100.0}
_UNKNOWN: dict[str, int | None] = dict.fromkeys(_TOLD)
"""One for all: of a large run most rows have no response time."""


def percentiles(encoded: Iterable[bytes | None]) -> dict[str, int | None]:
    """p50 to p999 and max, in ns, of all the histograms together; None for each where there are none."""
    low, counts = _merged(encoded)
    if not len(counts):
        return _UNKNOWN
    return dict(zip(_TOLD, _at(low, counts, _TOLD.values()), strict=True))


def curve(encoded: Iterable[bytes | None], at: Sequence[float], beyond: int = 1) -> list[tuple[float, int]]:
    """The percentiles `at` in ns, of all the histograms together, as far as there are so many values beyond each: the
    99.99th of a hundred values would be their largest, and say nothing of a tail. Nothing without histograms."""
    low, counts = _merged(encoded)
    whole = int(counts.sum())
    known = [percentile for percentile in at if (100 - percentile) * whole >= beyond * 99.999]
    return list(zip(known, _at(low, counts, known), strict=True)) if known else []


def _at(low: int, counts: NDArray[np.int64], percentiles: Iterable[float]) -> list[int]:
    """Percentiles in ns of counters from the one at `low` on."""
    found: list[int] = _ends()[_places(counts, percentiles) + low].tolist()
    return found
