"""MariaDB's and MySQL's own counters, from SHOW GLOBAL STATUS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dyno.contracts.counters import BYTES, COUNT, Counter, CounterSpec

VARIABLES = (
    Counter("Innodb_buffer_pool_read_requests", COUNT, "logical reads of pages"),
    Counter("Innodb_buffer_pool_reads", COUNT, "logical reads that the buffer pool could not answer"),
    Counter("Innodb_buffer_pool_wait_free", COUNT, "times that a page had to wait for a free one in the buffer pool"),
    Counter("Innodb_data_fsyncs", COUNT, "flushes by fsync"),
    Counter("Innodb_data_written", BYTES, "data that InnoDB has written"),
    Counter("Innodb_os_log_written", BYTES, "data written to the redo log"),
    Counter("Innodb_row_lock_waits", COUNT, "times that a row lock had to be waited for"),
    Counter("Handler_read_key", COUNT, "reads of a row by an index's key"),
    Counter("Handler_read_next", COUNT, "reads of the next row in the order of an index"),
    Counter("Handler_read_rnd_next", COUNT, "reads of the next row in a table's file, as a scan does"),
    Counter("Created_tmp_disk_tables", COUNT, "temporary tables on disk that statements created"),
    Counter("Bytes_sent", BYTES, "data sent to all clients"),
)
NAMES = ", ".join(f"'{counter.name}'" for counter in VARIABLES)


def read(engine: Any) -> Mapping[str, int]:
    rows = engine.client.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN ({NAMES})").fetchall()
    return {str(name): int(value) for name, value in rows}


SOURCE = 'MariaDB Foundation, MariaDB documentation, "Server Status Variables" and "InnoDB Server Status Variables"'
COUNTERS = CounterSpec(SOURCE, VARIABLES, read)
