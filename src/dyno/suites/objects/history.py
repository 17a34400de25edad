"""The transactions that `dyno crash` commits through the port `objects`: they add, change and remove persistent
objects in one container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.suite import Job
from dyno.suites._shared.slots import Slots
from dyno.suites.objects.transactions import Connection

CONTAINER = "slots"


class ObjectsHistory:
    """See `dyno.contracts.suite.History`. A slot is an object, its value the content."""

    def __init__(self, job: Job) -> None:
        self._job, self._slots = job, Slots(job.seed)

    @contextmanager
    def open(self, engine: Engine) -> Iterator[Connection]:
        from persistent.mapping import PersistentMapping

        with closing(self._job.port(engine)) as port, closing(Connection(port.database)) as connection:
            with connection.reading() as root:
                exists = CONTAINER in root
            if not exists:
                with connection.writing() as root:
                    root[CONTAINER] = PersistentMapping()
            yield connection

    def commit(self, port: Connection, number: int) -> None:
        from dyno.suites.objects.items import Item

        with port.writing() as root:
            container = root[CONTAINER]
            for slot, value in self._slots.writes(number).items():
                if value is None:
                    del container[slot]
                elif slot in container:
                    container[slot].content = value.encode()
                else:
                    container[slot] = Item(value.encode())

    def state(self, commits: int) -> Mapping[str, Any]:
        return {slot: value.encode() for slot, value in self._slots.state(commits).items()}

    def found(self, port: Connection) -> Mapping[str, Any]:
        port.connection.cacheMinimize()
        with port.reading() as root:
            return {slot: item.content for slot, item in root[CONTAINER].items()}
