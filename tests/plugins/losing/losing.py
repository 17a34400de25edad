"""A test engine, not a real one: Redis, whose clients in a process with the environment variable LOSES do not send
the hundredth replacement of a record, and answer as if they had. Not for measurements.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dyno.contracts.engine import PortSpec
from dyno.engines.redis.engines import REDIS
from dyno.engines.redis.records import KeyedRecords
from dyno.suites.records.port import Record

LOSES = "DYNO_TEST_LOSES"
LOST = 100


class Records(KeyedRecords):
    def __init__(self, engine: Any, indexed: bool) -> None:
        super().__init__(engine, indexed)
        self._calls = 0

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        chosen = list(records)
        self._calls += 1
        if self._calls == LOST and LOSES in os.environ:
            return self.reader().get_many([(record["name"], record["location"]) for record in chosen])
        return super().replace(chosen)


ENGINE = replace(REDIS, name="losing", ports={"records": PortSpec(Records)})
