"""Redis's and Valkey's own counters, from the answer to INFO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dyno.contracts.counters import BYTES, COUNT, NS, Counter, CounterSpec


def read(engine: Any) -> Mapping[str, int]:
    values = engine.client.info("all")
    # The time of INFO is the reading's own.
    commands = [name for name in values if name.startswith("cmdstat_") and name != "cmdstat_info"]
    return {**values, "cmdstat_ns": 1_000 * sum(values[name]["usec"] for name in commands)}


COUNTERS = CounterSpec(
    'Redis Ltd., Redis documentation, "INFO"',
    (
        Counter("total_commands_processed", COUNT, "commands that the server processed"),
        Counter("cmdstat_ns", NS, "CPU time that commands took: `usec` of all commands together"),
        Counter("total_reads_processed", COUNT, "read events: each reads what has arrived on a connection"),
        Counter("total_writes_processed", COUNT, "write events: each sends the replies of a connection"),
        Counter("io_threaded_reads_processed", COUNT, "read events that the threads of io-threads processed"),
        Counter("io_threaded_writes_processed", COUNT, "write events that the threads of io-threads processed"),
        Counter("total_net_input_bytes", BYTES, "data read from the network"),
        Counter("total_net_output_bytes", BYTES, "data written to the network"),
        Counter("keyspace_hits", COUNT, "lookups of keys that exist"),
        Counter("keyspace_misses", COUNT, "lookups of keys that do not exist"),
        Counter("evicted_keys", COUNT, "keys that were evicted because of maxmemory"),
        Counter("total_forks", COUNT, "times that the server forked, to write a snapshot or its log anew"),
        Counter("aof_delayed_fsync", COUNT, "writes to the log that had to wait for a flush"),
    ),
    read,
)
