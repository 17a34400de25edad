"""InfluxDB's own counters, from its page /debug/vars, which is always on."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Mapping
from typing import Any

from dyno.contracts.counters import BYTES, COUNT, NS, Counter, CounterSpec

STATISTICS = (
    Counter("queriesExecuted", COUNT, "queries that were executed"),
    Counter("queryDurationNs", NS, "time that queries took"),
    Counter("queryRespBytes", BYTES, "data in the answers to queries"),
    Counter("pointsWrittenOK", COUNT, "points that were accepted for writing"),
    Counter("writeReqBytes", BYTES, "data in requests to write"),
    Counter("writeReqDurationNs", NS, "time that requests to write took"),
    Counter("cacheCompactions", COUNT, "times that the cache was written to files"),
    Counter("tsmLevel1Compactions", COUNT, "merges of files of level 1"),
    Counter("tsmFullCompactions", COUNT, "merges of all files of a shard"),
)
NAMES = {counter.name for counter in STATISTICS}


def read(engine: Any) -> Mapping[str, int]:
    """Adds up the values of all shards."""
    sums = Sums[str](dict.fromkeys(NAMES, 0))
    for part in engine.client.request("debug/vars", "GET").json().values():
        if isinstance(part, dict):
            values = part.get("values", {})
            sums.update({name: int(values[name]) for name in NAMES & values.keys()})
    return sums


SOURCE = 'InfluxData, InfluxDB OSS documentation, "Measurements in the _internal database"'
COUNTERS = CounterSpec(SOURCE, STATISTICS, read)
