"""How fast this machine's memory can be read: what the bandwidth of an operation is a share of."""

from __future__ import annotations

import os
from statistics import median
from time import perf_counter_ns

import numpy as np

MEBIBYTES = 256
"""More than the caches of nearly all processors hold."""
PASSES = 5


def read_rate() -> float | None:
    """Bytes a second, by all cores that this process may use, each adding up its part of an array: the median of
    five passes. None where the native kernels were not built."""
    try:
        from dyno._native import float_sum
    except ImportError:
        return None
    array = np.ones((MEBIBYTES << 20) // 8)
    cores, times = len(os.sched_getaffinity(0)), []
    for _ in range(PASSES):
        begin = perf_counter_ns()
        float_sum(array, cores)
        times.append(perf_counter_ns() - begin)
    return array.nbytes / median(times) * 1e9
