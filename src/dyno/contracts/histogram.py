"""Latencies in an HdrHistogram: constant memory, merged without loss, saved in its interchange format.

The range is 1 ns to 1 hour at 3 significant digits. The library encodes and decodes. But it records one value at a
time in Python, which is too slow for a loop, so `Recorder` computes the buckets of a whole slice by the same
arithmetic, natively if possible. Percentiles are computed here too, because the library walks over every counter in
Python.
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

from dyno.contracts.native import load_native
from dyno.contracts.rank import is_supported, needed_values, rank

_record = getattr(load_native(), "record", None)
# Headers of the interchange format. Outer: cookie and length. Inner: cookie, length, offset, digits, lowest value,
# highest value and ratio.
_OUTER, _INNER = Struct(">II"), Struct(">IIIIQQd")
LAYOUT = LOWEST, HIGHEST, DIGITS = 1, 3_600_000_000_000, 3
MOST, OVERFLOW = 2.0**63, "counters overflow 64 bits"
MOST_COUNTED = 1 << 42
"""Maximum count of the histograms of a sample, so that no sum over samples overflows. It is that of an hour at 10^9 a
second."""
UNPACKED_BYTES = 1 << 20
"""Limit of an unpacked histogram, larger than any that Dyno writes."""
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}


_LAYOUT = HdrHistogram(*LAYOUT)


class Recorder:
    """Counts latencies by bucket."""

    def __init__(self) -> None:
        self.counts = np.zeros(_LAYOUT.counts_len, dtype=np.int64)

    def add(self, spans_ns: Sequence[int] | NDArray[np.int64]) -> None:
        """Adds latencies, each clamped to the histogram's range."""
        values = np.ascontiguousarray(spans_ns, dtype=np.int64)
        if _record is not None:
            _record(self.counts, values, _LAYOUT.sub_bucket_half_count_magnitude, HIGHEST)
        else:
            self.counts += np.bincount(_buckets(values.clip(LOWEST, HIGHEST)), minlength=len(self.counts))

    def add_many(self, value_ns: int, count: int) -> None:
        """Adds one latency `count` times."""
        single = Recorder()
        single.add([value_ns])
        self.counts += single.counts * count

    def pairs(self) -> list[tuple[int, int]]:
        """Returns the highest value of each filled counter, with its count."""
        filled = np.flatnonzero(self.counts)
        return list(zip(_ends()[filled].tolist(), self.counts[filled].tolist(), strict=True))

    def merge(self, other: Recorder) -> None:
        self.counts += other.counts

    def encode(self) -> bytes | None:
        """Returns HdrHistogram's compressed interchange format; None if nothing was recorded."""
        filled = np.flatnonzero(self.counts)
        if not len(filled):
            return None
        histogram = HdrHistogram(*LAYOUT)
        for index in filled.tolist():
            value = histogram.get_value_from_index(index)
            histogram.record_value(value, int(self.counts[index]))
        return a2b_base64(histogram.encode())


def _buckets(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the index of each value's counter."""
    magnitude = _LAYOUT.sub_bucket_half_count_magnitude
    # frexp's exponent is the number of bits; float64 represents every integer below 2 ** 53 exactly.
    bits = np.frexp((values | _LAYOUT.sub_bucket_mask).astype(np.float64))[1]
    bucket = bits.astype(np.int64) - (magnitude + 1)
    index: NDArray[np.int64] = ((bucket + 1) << magnitude) + (values >> bucket) - _LAYOUT.sub_bucket_half_count
    return index


@cache
def _ends() -> NDArray[np.int64]:
    """Returns the highest value of each counter, like the library's `get_highest_equivalent_value`."""
    magnitude = _LAYOUT.sub_bucket_half_count_magnitude
    index = np.arange(_LAYOUT.counts_len, dtype=np.int64)
    bucket = np.maximum((index >> magnitude) - 1, 0)
    lowest = (index - (bucket << magnitude)) << bucket
    ends: NDArray[np.int64] = lowest + (1 << bucket) - 1
    return ends


def quantile(indices: NDArray[np.intp], counts: NDArray[np.int64], percentile: float) -> int:
    """Returns a percentile in ns, given a histogram's filled counters and their indices in ascending order."""
    return int(_ends()[indices[_positions(counts, [percentile])[0]]])


def _positions(counts: NDArray[np.int64], percentiles: Iterable[float]) -> NDArray[np.intp]:
    """Returns the position of the counter that contains each percentile."""
    at = np.cumsum(counts)
    whole = int(at[-1])
    return np.searchsorted(at, [rank(percentile, whole) for percentile in percentiles])


def _merge_counters(encoded: Iterable[bytes | None]) -> tuple[int, NDArray[np.int64]]:
    """Returns the summed counters of all histograms, from the first to the last filled one, and the index of the
    first. Empty without histograms. Raises ValueError for a histogram that Dyno did not write."""
    histograms = [each for each in encoded if each is not None]
    if not histograms:
        # The common case: most rows have no histogram of most kinds of latencies.
        return 0, _NOTHING
    counts = np.zeros(_LAYOUT.counts_len, dtype=np.int64)
    try:
        low, high = _restore(counts, list(map(_content, histograms)), _INNER.size)
    # Damaged histograms make the libraries raise many types of exceptions.
    except Exception as error:
        raise ValueError(f"not a histogram: {error}") from None
    return low, counts[low:high]


def _content(whole: bytes) -> bytes:
    """Returns a histogram's unpacked counters with their header. The library's classes would clear 34,000 counters
    per histogram."""
    packed_cookie, length = _OUTER.unpack_from(whole)
    if packed_cookie != get_compression_cookie() or length != len(whole) - _OUTER.size:
        raise ValueError("another format")
    packed = zlib.decompressobj()
    content = packed.decompress(memoryview(whole)[_OUTER.size :], UNPACKED_BYTES)
    if packed.unconsumed_tail:
        raise ValueError(f"over {UNPACKED_BYTES:,} bytes")
    cookie, _, _, digits, lowest, highest, _ = _INNER.unpack_from(content)
    if cookie != get_encoding_cookie() or (lowest, highest, digits) != LAYOUT:
        raise ValueError("another range or precision")
    return content


def add_counters(counts: NDArray[np.int64], histograms: Sequence[bytes], skip: int) -> tuple[int, int]:
    """Adds the counters of several histograms to `counts`, which must be zero. In each histogram, the counters begin
    after `skip` bytes. Returns the index of the first filled counter, and the index after the last. Raises ValueError
    for an overflow, and the decoder's errors."""
    low = len(counts)
    high = 0
    each = np.zeros_like(counts)
    for content in histograms:
        each[:] = 0
        decode(content, skip, each.ctypes.data, len(each), each.itemsize)
        counts += each
        if counts.min() < 0:
            raise ValueError(OVERFLOW)
        filled = np.flatnonzero(each)
        if len(filled):
            low, high = min(low, int(filled[0])), max(high, int(filled[-1]) + 1)
    # Python's integers are exact: a sum of floats could be rounded up to the limit.
    if sum(counts[low:high].tolist()) >= MOST:
        raise ValueError(OVERFLOW)
    return min(low, high), high


_restore = getattr(load_native(), "restore", add_counters)
_NOTHING = np.zeros(0, dtype=np.int64)
_CHECKED = np.zeros(_LAYOUT.counts_len, dtype=np.int64)


_SHOWN = {**PERCENTILES, "max": 100.0}
_UNKNOWN: dict[str, int | None] = dict.fromkeys(_SHOWN)
"""A shared constant, since most rows of a large run have no response times."""


def check(encoded: Iterable[bytes | None]) -> None:
    """Raises ValueError unless Dyno can have written the histograms, all of one sample."""
    # Loading a run checks all of its histograms. To clear the counters that were filled is faster than new counters.
    try:
        contents = [_content(each) for each in encoded if each is not None]
        low, high = _restore(_CHECKED, contents, _INNER.size)
        filled = _CHECKED[low:high]
        counted = int(filled.sum())
        filled[:] = 0
    except Exception as error:
        _CHECKED[:] = 0
        raise ValueError(f"not a histogram: {error}") from None
    if counted > MOST_COUNTED:
        raise ValueError(f"not a histogram: counts over {MOST_COUNTED:,} operations")


def percentiles(encoded: Iterable[bytes | None]) -> dict[str, int | None]:
    """Returns p50 to p999 and max of the merged histograms, in ns. A percentile is None without histograms, and if
    too few values lie beyond it."""
    low, counts = _merge_counters(encoded)
    if not len(counts):
        return _UNKNOWN
    whole = int(counts.sum())
    values = dict(zip(_SHOWN, _percentile_values(low, counts, _SHOWN.values()), strict=True))
    return {name: ns if name == "max" or is_supported(_SHOWN[name], whole) else None for name, ns in values.items()}


def count_values(encoded: Iterable[bytes | None]) -> list[tuple[int, int]]:
    """Returns the values of the merged histograms, in ns and to three digits, each with the number of times that it
    occurs."""
    low, counts = _merge_counters(encoded)
    filled = np.flatnonzero(counts)
    return list(zip(_ends()[filled + low].tolist(), counts[filled].tolist(), strict=True))


def curve(encoded: Iterable[bytes | None], at: Sequence[float], beyond: int = 1) -> list[tuple[float, int]]:
    """Returns the percentiles `at` of the merged histograms, in ns. A percentile is left out if fewer than `beyond`
    values lie above it: the 99.99th of a hundred values would be just the largest. Empty without histograms."""
    low, counts = _merge_counters(encoded)
    whole = int(counts.sum())
    known = [percentile for percentile in at if whole >= needed_values(percentile, beyond)]
    if known:
        return list(zip(known, _percentile_values(low, counts, known), strict=True))
    return []


def _percentile_values(low: int, counts: NDArray[np.int64], percentiles: Iterable[float]) -> list[int]:
    """Returns percentiles in ns; `low` is the index of the first counter."""
    values: list[int] = _ends()[_positions(counts, percentiles) + low].tolist()
    return values
