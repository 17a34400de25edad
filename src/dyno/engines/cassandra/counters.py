"""Cassandra's own counters, from its virtual tables. A node's tables tell only of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dyno.contracts.counters import COUNT, Counter, CounterSpec
from dyno.contracts.model import Refused

CACHES = "SELECT name, request_count, hit_count FROM system_views.caches"
POOLS = "SELECT name, completed_tasks FROM system_views.thread_pools"
TABLES = "SELECT count FROM system_views.local_{}_latency WHERE keyspace_name = '{}' ALLOW FILTERING"
KINDS = ("read", "write")
STAGES = ("ReadStage", "MutationStage", "MemtableFlushWriter", "CompactionExecutor")


def read(engine: Any) -> Mapping[str, int]:
    if len(engine.client.cluster.metadata.all_hosts()) > 1:
        raise Refused("each of several nodes counts only its own work")
    execute = engine.client.execute
    (requests, hits) = next((row[1:] for row in execute(CACHES) if row[0] == "keys"), (0, 0))
    tasks = dict(execute(POOLS))
    return {
        **{f"local_{kind}s": sum(count for (count,) in execute(TABLES.format(kind, engine.name))) for kind in KINDS},
        "key_cache_requests": requests,
        "key_cache_hits": hits,
        **{stage: tasks.get(stage, 0) for stage in STAGES},
    }


COUNTERS = CounterSpec(
    'The Apache Software Foundation, Cassandra documentation, "Virtual tables" and "Metrics"',
    (
        Counter("local_reads", COUNT, "reads of the store's tables on this node"),
        Counter("local_writes", COUNT, "writes to the store's tables on this node"),
        Counter("key_cache_requests", COUNT, "lookups in the key cache"),
        Counter("key_cache_hits", COUNT, "lookups that the key cache answered"),
        Counter("ReadStage", COUNT, "tasks that the pool of readers completed"),
        Counter("MutationStage", COUNT, "tasks that the pool of writers completed"),
        Counter("MemtableFlushWriter", COUNT, "memtables that were written to files"),
        Counter("CompactionExecutor", COUNT, "tasks of compaction that were completed"),
    ),
    read,
)
