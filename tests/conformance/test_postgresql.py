"""Guards what is particular to PostgreSQL: both of its clients give the same answers, and its planner knows a store
before it is read. What all engines must do is in `test_records` and `test_durability`, and a real server's life in
`test_real_server`.
"""

from __future__ import annotations

from contextlib import closing
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


@pytest.fixture(autouse=True)
def needed() -> None:
    require(SPEC)


def record(number: int, stub: str = "x") -> Record:
    return {"name": f"n{number:06}", "location": f"l{number % 7}", "stub": stub}


@pytest.mark.parametrize("check", CHECKS)
def test_a_store_passes_the_check_by_libpqs_own_calls(check: str, place: Path) -> None:
    CHECKS[check](Store(SPEC, Tier.PROCESS, {"client": "pq"}).opened(place), Tier.PROCESS)


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
