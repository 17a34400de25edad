"""Guards what is particular to PostgreSQL: both of its clients give the same answers, also by a pipeline, whatever
its size; and its planner knows a store before it is read. What all engines must do is in `test_records` and
`test_durability`, and a real server's life in `test_real_server`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from needed import require
from serving import job, served
from stores import Store

from dyno import registry
from dyno.model import Tier
from dyno.suites.records.conformance import CHECKS
from dyno.suites.records.port import Record

SPEC = registry.engine("postgresql")
CLIENTS = ("psycopg", "pq")
LARGE = 1 << 16
"""Characters of a record, of which some hundreds are far more than a socket holds."""


@pytest.fixture(autouse=True)
def needed() -> None:
    require(SPEC)


def record(number: int, stub: str = "x") -> Record:
    return {"name": f"n{number:06}", "location": f"l{number % 7}", "stub": stub}


@contextmanager
def pipelining(client: str, place: Path) -> Iterator[tuple[Any, Any]]:
    """The engine and its port, whose batches are pipelines."""
    asked = job(place / "store", "postgresql", Tier.PROCESS, client=client, many="pipeline")
    with (
        served(asked),
        closing(asked.open(asked.home)) as engine,
        closing(asked.spec.ports["records"].open(engine, True)) as port,
    ):
        yield engine, port


@pytest.mark.parametrize("check", CHECKS)
def test_a_store_passes_the_check_by_libpqs_own_calls(check: str, place: Path) -> None:
    CHECKS[check](Store(SPEC, Tier.PROCESS, {"client": "pq"}).opened(place), Tier.PROCESS)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_pipeline_answers_as_a_statement_does(client: str, place: Path) -> None:
    CHECKS["many"](Store(SPEC, Tier.PROCESS, {"client": client, "many": "pipeline"}).opened(place), Tier.PROCESS)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_pipeline_takes_more_than_a_socket_holds(client: str, place: Path) -> None:
    """Neither side may wait for the other to read."""
    records, absent = [record(number, "x" * LARGE) for number in range(400)], 9_600
    keys = [(one["name"], one["location"]) for one in map(record, range(400 + absent))]
    with pipelining(client, place) as (_, port):
        port.insert(records)
        reader = port.reader()
        assert reader.get_many(keys) == [*records, *[None] * absent]
        assert reader.get(keys[0]) == records[0], "and the connection is as it was"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_pipeline_that_fails_raises_and_spoils_nothing_that_comes_after(client: str, place: Path) -> None:
    keys = [("n000001", "l1"), ("n000002", "l2")]
    with pipelining(client, place) as (engine, port):
        port.insert([record(1), record(2)])
        reader = port.reader()
        assert reader.get_many(keys) == [record(1), record(2)]
        engine.connection.execute("ALTER TABLE records RENAME TO elsewhere")
        with pytest.raises(Exception, match='relation "records" does not exist'):
            reader.get_many(keys)
        engine.connection.execute("ALTER TABLE elsewhere RENAME TO records")
        assert reader.get_many(keys) == [record(1), record(2)]


def test_its_planner_knows_a_store_after_its_upkeep(place: Path) -> None:
    asked = job(place / "store", "postgresql", Tier.PROCESS)
    assert SPEC.upkeep is not None
    with served(asked), closing(asked.open(asked.home)) as opened:
        engine: Any = opened
        with closing(asked.spec.ports["records"].open(engine, True)) as port:
            port.insert(record(number) for number in range(5_000))
        SPEC.upkeep(engine)
        told = "SELECT reltuples, relallvisible > 0 FROM pg_class WHERE relname = 'records'"
        assert engine.connection.execute(told).fetchone() == (5_000, True)
