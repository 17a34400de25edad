"""The own counters of ClickHouse, of its server and of chDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dyno.contracts.counters import BYTES, COUNT, Counter, CounterSpec

SOURCE = 'ClickHouse, Inc., ClickHouse documentation, "system.events"'
QUERY = "SELECT event, value FROM system.events"
EVENTS = (
    Counter("SelectedParts", COUNT, "parts of tables that queries selected to read from"),
    Counter("SelectedMarks", COUNT, "marks that queries selected to read: index granules"),
    Counter("InsertedRows", COUNT, "rows that were inserted into all tables"),
    Counter("InsertedBytes", BYTES, "uncompressed data that was inserted into all tables"),
    Counter("MergedRows", COUNT, "rows that background merges read"),
    Counter("MarkCacheHits", COUNT, "lookups of marks that the mark cache answered"),
    Counter("MarkCacheMisses", COUNT, "lookups of marks that read a file of marks"),
    Counter("FileOpen", COUNT, "files that were opened"),
    Counter("ReadBufferFromFileDescriptorRead", COUNT, "reads from files"),
    Counter("ReadBufferFromFileDescriptorReadBytes", BYTES, "data read from files, compressed if the file is"),
    Counter("WriteBufferFromFileDescriptorWrite", COUNT, "writes to files"),
    Counter("WriteBufferFromFileDescriptorWriteBytes", BYTES, "data written to files, compressed if the file is"),
)
NONE_YET: Mapping[str, int] = {counter.name: 0 for counter in EVENTS}
"""The table has only events that have happened."""


def read(engine: Any) -> Mapping[str, int]:
    return {**NONE_YET, **dict(engine.client.execute(QUERY))}


COUNTERS = CounterSpec(SOURCE, EVENTS, read)
