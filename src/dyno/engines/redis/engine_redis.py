"""Redis: a server that Dyno starts, or the user's own."""

from dyno.engines.redis.keyspace import declaration
from dyno.engines.redis.server_redis import LEAST
from dyno.servers.program_option import ServerProgram

ENGINE = declaration(
    "redis",
    "Redis, a server that holds its data in memory (redis-py)",
    ServerProgram(
        "Redis server",
        r"Redis server v=(\d[\d.]*)",
        least=LEAST,
        names=("redis-server",),
        install="dyno install redis",
    ),
)
