"""Every engine's own counters, on the real engine: all declared ones are read, and none ever shrinks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from needed import require
from stores import Store, shared

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.suite import Job

pytestmark = pytest.mark.usefixtures("processes")

OPTIONS = {"rocksdb": {"statistics": "yes"}}
"""Options without which an engine lacks some of its counters."""
SPECS = {spec.name: spec for spec in registry.engines() if spec.counters is not None}


@contextmanager
def opened(spec: EngineSpec, home: Path) -> Iterator[Any]:
    """The engine, on a server that tests of its default options share."""
    given = OPTIONS.get(spec.name, {})
    spec = spec.reduce_to_port(next(iter(spec.ports)))
    assert spec.default_tier is not None
    store = Store(spec, spec.default_tier, given)
    home.mkdir()
    server = shared(store)
    job = Job(spec, home, store.tier, spec.resolve(given), {}, seed=1, clients=1, server=server)
    with closing(job.open(home)) as engine:
        yield engine


@pytest.mark.parametrize("name", SPECS)
def test_declared_counters_are_read_and_never_shrink(name: str, place: Path) -> None:
    spec = SPECS[name]
    require(spec)
    counters = spec.counters
    assert counters is not None
    with opened(spec, place / "store") as engine:
        before = counters.read(engine)
        if counters.publish is not None:
            counters.publish(engine)
        after = counters.read(engine)
    for counter in counters.counters:
        if "version" in counter.meaning and counter.name not in before:
            continue
        assert type(before[counter.name]) is int, counter
        assert 0 <= before[counter.name] <= after[counter.name], counter


@pytest.mark.parametrize("name", SPECS)
def test_declaration_of_counters_is_short_and_cited(name: str) -> None:
    spec = SPECS[name]
    spec.check(spec.ports)
    counters = spec.counters
    assert counters is not None
    assert 3 <= len(counters.counters) <= 16
    assert '"' in counters.source, "the document's title"
    for counter in counters.counters:
        assert len(counter.meaning) <= 100
        assert counter.unit != "bytes" or "bytes" not in counter.meaning


def growth(name: str, engine: Any, work: Callable[[], object]) -> dict[str, int]:
    """By how much each counter grows while the work is done."""
    counters = SPECS[name].counters
    assert counters is not None
    before = counters.read(engine)
    work()
    after = counters.read(engine)
    return {counter.name: after[counter.name] - before[counter.name] for counter in counters.counters}


def test_reads_of_a_large_table_miss_rocksdbs_block_cache(place: Path) -> None:
    require(SPECS["rocksdb"])
    with opened(SPECS["rocksdb"], place / "store") as engine:
        keys = [b"%06d" % number for number in range(2_000)]
        written = growth("rocksdb", engine, lambda: [engine.db.put(key, b"x" * 1_000) for key in keys])
        engine.compact()
        first = growth("rocksdb", engine, lambda: [engine.db.get(key) for key in keys])
        second = growth("rocksdb", engine, lambda: [engine.db.get(key) for key in keys])
    assert written["rocksdb.wal.bytes"] >= 2_000 * 1_000
    assert first["rocksdb.block.cache.miss"] >= 100
    assert second["rocksdb.block.cache.miss"] == 0
    assert second["rocksdb.block.cache.hit"] == 2_000


def test_rocksdb_without_statistics_has_other_counters(place: Path) -> None:
    require(SPECS["rocksdb"])
    spec = SPECS["rocksdb"]
    assert spec.default_tier is not None and spec.counters is not None
    engine: Any = spec.opener(place, spec.default_tier, spec.resolve({}))
    with closing(engine):
        before = spec.counters.read(engine)
        engine.db.put(b"key", b"value")
        engine.compact()
        after = spec.counters.read(engine)
    assert "rocksdb.block.cache.miss" not in before
    assert after["versions"] > before["versions"]
    assert after["total-stops"] == before["total-stops"] == 0


def test_compaction_raises_leveldbs_bytes_written(place: Path) -> None:
    require(SPECS["leveldb"])
    with opened(SPECS["leveldb"], place / "store") as engine:

        def fill() -> None:
            for number in range(6_000):
                engine.db.put(b"%06d" % number, os.urandom(1_000))
            engine.db.compact_range()

        grown = growth("leveldb", engine, fill)
    assert grown["Write"] >= 5_000_000


@pytest.mark.parametrize("name", ["clickhouse", "chdb"])
def test_inserted_rows_are_counted_by_clickhouse(name: str, place: Path) -> None:
    require(SPECS[name])
    with opened(SPECS[name], place / "store") as engine:
        execute = engine.client.execute if name == "clickhouse" else engine.query
        database = engine.name if name == "clickhouse" else "dyno"
        execute(f"CREATE TABLE {database}.numbers (n UInt64) ENGINE = MergeTree ORDER BY n")
        insert = f"INSERT INTO {database}.numbers SELECT number FROM system.numbers LIMIT 1000"
        grown = growth(name, engine, lambda: execute(insert))
    assert grown["InsertedRows"] == 1_000
    assert grown["InsertedBytes"] == 8_000


def test_points_written_are_counted_by_influxdb(place: Path) -> None:
    require(SPECS["influxdb"])
    with opened(SPECS["influxdb"], place / "store") as engine, closing(engine.connect()) as client:
        lines = [f"m value={number} {number}" for number in range(1, 51)]
        grown = growth("influxdb", engine, lambda: client.write_points(lines, protocol="line"))
    assert grown["pointsWrittenOK"] == 50
    assert grown["queriesExecuted"] == 0


def test_requests_are_counted_by_minio(place: Path) -> None:
    require(SPECS["minio"])
    with opened(SPECS["minio"], place / "store") as engine:

        def put() -> None:
            for number in range(20):
                engine.client.put_object(Bucket=engine.at.bucket, Key=str(number), Body=b"x" * 1_000)

        written = growth("minio", engine, put)
        read = growth(
            "minio", engine, lambda: engine.client.get_object(Bucket=engine.at.bucket, Key="1")["Body"].read()
        )
    assert written["minio_api_requests_total"] == 20
    assert 20_000 <= written["minio_api_requests_traffic_received_bytes"] < 40_000
    assert read["minio_api_requests_total"] == 1
    assert 1_000 <= read["minio_api_requests_traffic_sent_bytes"] < 2_000
    assert written["go_memstats_mallocs_total"] > 20


def test_merged_transactions_are_counted_by_questdb(place: Path) -> None:
    require(SPECS["questdb"])
    with opened(SPECS["questdb"], place / "store") as engine:
        execute = engine.client.execute
        execute(
            f"CREATE TABLE {engine.name} (ts TIMESTAMP, n INT) TIMESTAMP(ts) PARTITION BY DAY WAL"
            " DEDUP UPSERT KEYS(ts)"
        )
        insert = f"INSERT INTO {engine.name} SELECT (x * 1000000)::timestamp, x::int FROM long_sequence(1000)"

        def fill() -> None:
            execute(insert)
            execute(f"SELECT wait_wal_table('{engine.name}')").fetchall()

        first = growth("questdb", engine, fill)
        second = growth("questdb", engine, fill)
    assert first["wal_tx_count"] == second["wal_tx_count"] == 1
    assert first["wal_dedup_row_count_since_start"] == 0
    assert second["wal_dedup_row_count_since_start"] == 1_000
