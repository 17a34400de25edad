"""QuestDB's own counters of the store's table, from its function tables(), which is always on. Those of its page of
metrics would cost something: Dyno switches them off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dyno.contracts.counters import COUNT, Counter, CounterSpec

COLUMNS = (
    Counter("wal_tx_count", COUNT, "transactions of the write-ahead log that were merged into the table"),
    Counter("table_txn", COUNT, "transactions of the table: a merge may join several of the log"),
    Counter("table_merge_rate_count", COUNT, "merges of the log into the table"),
    Counter("table_write_amp_count", COUNT, "merges that wrote rows to the table"),
    Counter("wal_dedup_row_count_since_start", COUNT, "rows that replaced others of the same time and variable"),
)
NAMES = tuple(counter.name for counter in COLUMNS)


def read(engine: Any) -> Mapping[str, int]:
    """Returns the counters, which are 0 before the table is created. Earlier versions lack some."""
    cursor = engine.client.execute(f"SELECT * FROM tables() WHERE table_name = '{engine.name}'")
    row = cursor.fetchone()
    if row is None:
        return dict.fromkeys(NAMES, 0)
    values = {column.name: value for column, value in zip(cursor.description, row, strict=True)}
    return {name: int(values[name] or 0) for name in NAMES if name in values}


COUNTERS = CounterSpec('QuestDB, QuestDB documentation, "Meta functions"', COLUMNS, read)
