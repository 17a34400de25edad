"""VictoriaMetrics' own counters, from its page /metrics, which is always on."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Mapping
from typing import Any

from dyno.contracts.counters import BYTES, COUNT, Counter, CounterSpec

METRICS = (
    Counter("vm_rows_added_to_storage_total", COUNT, "samples that were added to the storage"),
    Counter("vm_rows_merged_total", COUNT, "rows that merges of parts read"),
    Counter("vm_merges_total", COUNT, "merges of parts"),
    Counter("vm_slow_row_inserts_total", COUNT, "samples whose series was not in a cache when they were inserted"),
    Counter("vm_cache_requests_total", COUNT, "lookups in all caches"),
    Counter("vm_cache_misses_total", COUNT, "lookups that a cache could not answer"),
    Counter("vm_zstd_block_compress_calls_total", COUNT, "blocks that were compressed"),
    Counter("vm_zstd_block_decompress_calls_total", COUNT, "blocks that were decompressed"),
    Counter("vm_fs_read_bytes_total", BYTES, "data read at random from files of parts"),
    Counter("vm_filestream_real_read_bytes_total", BYTES, "data read in sequence from files, as merges do"),
    Counter("vm_filestream_real_written_bytes_total", BYTES, "data written in sequence to files, as merges do"),
)


def read(engine: Any) -> Mapping[str, int]:
    """Adds up the values of all labels."""
    sums = Sums[str]()
    for line in engine.client.post("/metrics").decode().splitlines():
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0]
        if name in NAMES:
            sums[name] += int(float(value))
    return sums


NAMES = {counter.name for counter in METRICS}
COUNTERS = CounterSpec('VictoriaMetrics, VictoriaMetrics documentation, "Monitoring"', METRICS, read)
