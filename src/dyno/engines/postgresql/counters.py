"""PostgreSQL's own counters, from its cumulative statistics, and what its sessions wait for.

A session publishes what it has counted at most once a second, unless it is told to. Before version 15 it can't be
told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dyno.contracts.counters import BYTES, COUNT, RUNNING, Counter, CounterSpec
from dyno.contracts.model import Refused

VIEWS: Mapping[str, str] = {
    "pg_stat_database": "SELECT to_jsonb(s) FROM pg_stat_database s WHERE datname = current_database()",
    "pg_stat_wal": "SELECT to_jsonb(s) FROM pg_stat_wal s",
    "pg_stat_checkpointer": "SELECT to_jsonb(s) FROM (SELECT buffers_written FROM pg_stat_checkpointer) s",
    "pg_stat_bgwriter": "SELECT to_jsonb(s) FROM pg_stat_bgwriter s",
    "pg_stat_io": (
        "SELECT to_jsonb(s) FROM (SELECT sum(writes) FILTER (WHERE object = 'wal') AS wal_write,"
        " sum(fsyncs) FILTER (WHERE object = 'wal') AS wal_sync, sum(extends) AS extends,"
        " sum(evictions) AS evictions FROM pg_stat_io) s"
    ),
}
"""Queries by the view that they need. Which columns a view has, and which views there are, depends on the version."""
FLUSH = "SELECT pg_stat_force_next_flush()"


def read(engine: Any) -> Mapping[str, int]:
    execute = engine.client.execute
    if engine.client.info.server_version < 150_000:
        raise Refused("PostgreSQL before version 15 publishes its statistics late")
    execute(FLUSH)
    known = {name for (name,) in execute("SELECT relname FROM pg_class WHERE relname = ANY(%s)", (list(VIEWS),))}
    queries = [query for view, query in VIEWS.items() if view in known]
    values: dict[str, Any] = {}
    for (columns,) in execute(" UNION ALL ".join(queries)).fetchall():
        values |= {name: value for name, value in columns.items() if value is not None}
    return values


def publish(engine: Any) -> None:
    for session in (engine.client, *engine.sessions):
        if not session.closed:
            session.execute(FLUSH)


COUNTERS = CounterSpec(
    'The PostgreSQL Global Development Group, PostgreSQL documentation, "The Cumulative Statistics System"',
    (
        Counter("blks_read", COUNT, "blocks that were not in the shared buffers, and were read from the kernel"),
        Counter("blks_hit", COUNT, "blocks that were found in the shared buffers"),
        Counter(
            "tup_returned", COUNT, "live rows fetched by sequential scans, and index entries returned by index scans"
        ),
        Counter("tup_fetched", COUNT, "live rows fetched by index scans"),
        Counter("temp_bytes", BYTES, "data that queries wrote to temporary files"),
        Counter("wal_records", COUNT, "records of the write-ahead log"),
        Counter("wal_fpi", COUNT, "full page images in the write-ahead log"),
        Counter("wal_bytes", BYTES, "size of the records of the write-ahead log"),
        Counter("wal_write", COUNT, "times that buffers of the write-ahead log were written"),
        Counter("wal_sync", COUNT, "times that files of the write-ahead log were flushed"),
        Counter("buffers_checkpoint", COUNT, "buffers that checkpoints wrote (before version 17)"),
        Counter("buffers_written", COUNT, "buffers that checkpoints and restartpoints wrote (since version 17)"),
        Counter("buffers_backend", COUNT, "buffers that sessions had to write themselves (before version 17)"),
        Counter("extends", COUNT, "times that files of tables and indexes were extended (since version 16)"),
        Counter("evictions", COUNT, "buffers that were given up to make room for other blocks (since version 16)"),
    ),
    read,
    publish,
)

WAITS_SOURCE = 'The PostgreSQL Global Development Group, PostgreSQL documentation, "Wait Events"'
WAITS = (
    f"SELECT coalesce(wait_event_type || ' ' || wait_event, '{RUNNING}') FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()"
    " AND datname = current_database() AND usename = current_user"
)


def read_waits(session: Any) -> Iterable[str]:
    return [event for (event,) in session.execute(WAITS).fetchall()]
