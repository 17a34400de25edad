"""The transactions that `dyno crash` commits through the ports `records` and `ordered-kv`: they store, replace and
delete records together with both indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Job
from dyno.suites._shared.slots import SLOTS, Slots
from dyno.suites.records.port import INDEXES, Key, Record, Records
from dyno.suites.records.workload import open_port


class RecordsHistory:
    """See `dyno.contracts.suite.History`. A slot is a record, its value the stub."""

    def __init__(self, job: Job) -> None:
        single = any(gap.check == "atomicity" for gap in job.spec.gaps)
        self._job, self._slots = job, Slots(job.seed, single)

    @contextmanager
    def open(self, engine: Engine) -> Iterator[Records]:
        with closing(open_port(self._job, engine, True)) as port:
            yield port

    def commit(self, port: Records, number: int) -> None:
        writes = self._slots.writes(number)
        if None in writes.values():
            port.delete([_key(slot) for slot in writes])
        else:
            port.replace([_record(slot, str(value)) for slot, value in writes.items()])

    def state(self, commits: int) -> Mapping[str, Any]:
        return self._slots.state(commits)

    def found(self, port: Records) -> Mapping[str, Any]:
        with port.reading() as reader:
            records = reader.scanner(2 * SLOTS)(("", ""))
            for record in records:
                if reader.get((record["name"], record["location"])) != record:
                    raise Wrong(f"{record['name']}: the scan and a lookup by key differ")
                for index, function in INDEXES.items():
                    if reader.finder(index)(function(record)) != record:
                        raise Wrong(f"{record['name']}: the scan and a lookup by {index} differ")
        return {record["name"]: record["stub"] for record in records}


def _key(slot: str) -> Key:
    return slot, slot.upper()


def _record(slot: str, value: str) -> Record:
    return {"name": slot, "location": slot.upper(), "stub": value}
