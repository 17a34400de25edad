"""Redis: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

from dyno.contracts.engine import PortSpec
from dyno.engines.redis.keyspace import declared
from dyno.engines.redis.server_redis import LEAST, Program
from dyno.servers.program_option import Kind
from dyno.suites.records.port import MSGPACK

ENGINE = declared(
    name="redis",
    title="Redis, a server that holds its data in memory (redis-py)",
    program=Program(
        "redis-server", "dyno install redis", Kind("Redis server", r"Redis server v=(\d[\d.]*)", least=LEAST)
    ),
    packages=("redis-server",),
    ports={"records": PortSpec("dyno.engines.redis.records:KeyedRecords", caveats=(MSGPACK,))},
)
