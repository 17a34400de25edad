"""MariaDB's and MySQL's own counters, from SHOW GLOBAL STATUS, and what their sessions wait for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dyno.contracts.cleanup import undo_on_error
from dyno.contracts.counters import BYTES, COUNT, Counter, CounterSpec, WaitSpec
from dyno.contracts.model import Refused, Value
from dyno.engines.mysql.client import Client, ConnectionArguments, connect

if TYPE_CHECKING:
    from dyno.servers.listen import StoreServer

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

SCHEMA_OFF = "performance_schema is off: set.performance_schema=on gives them, and costs speed in all trials"
CONSUMER = "events_waits_current"
CONSUMER_OFF = f"the server doesn't record them: {CONSUMER} is not ENABLED in performance_schema.setup_consumers"
UNRECORDED = "no recorded wait"
"""State of a session that runs, or waits for something that the server doesn't record. MariaDB 10.11 records no wait
for the flush of the redo log."""
RECORD_WAITS = (
    "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME LIKE 'wait/%'",
    f"UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = '{CONSUMER}'",
)
# A wait that is over stays in the table until the next one begins. The one for a table is the whole work on a row.
WAITS = (
    f"SELECT t.THREAD_ID, COALESCE(w.EVENT_NAME, '{UNRECORDED}') FROM performance_schema.threads t"
    f" LEFT JOIN performance_schema.{CONSUMER} w ON w.THREAD_ID = t.THREAD_ID"
    " AND w.END_EVENT_ID IS NULL AND w.EVENT_NAME NOT LIKE 'wait/io/table/%'"
    " WHERE t.TYPE = 'FOREGROUND' AND t.PROCESSLIST_ID <> CONNECTION_ID()"
    " AND t.PROCESSLIST_COMMAND NOT IN ('Sleep', 'Daemon') ORDER BY w.EVENT_ID DESC"
)


def connect_for_waits(server: StoreServer[ConnectionArguments], options: Mapping[str, Value]) -> Client:
    """Returns a session that can read waits. On a server of Dyno's own, recording them begins."""
    session = connect(server, str(options["client"]))
    with undo_on_error(session.close):
        (schema,) = session.execute("SELECT @@performance_schema").fetchone()
        if not int(schema):
            raise Refused(SCHEMA_OFF)
        if server.own:
            for statement in RECORD_WAITS:
                session.execute(statement)
        enabled = f"SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = '{CONSUMER}'"
        (recorded,) = session.execute(enabled).fetchone()
        if recorded != "YES":
            raise Refused(CONSUMER_OFF)
    return session


def read_waits(session: Client) -> Iterable[str]:
    # Of waits within each other, the outermost is the last, and says most: it may wait by a condition or a mutex.
    outermost = dict(session.execute(WAITS).fetchall())
    return [str(event).removeprefix("wait/") for event in outermost.values()]


WAITS_SOURCE = 'MariaDB Foundation, MariaDB documentation, "Performance Schema events_waits_current Table"'
WAIT_SPEC = WaitSpec(WAITS_SOURCE, connect_for_waits, read_waits)
