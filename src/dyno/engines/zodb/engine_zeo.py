"""ZEO: a server of ZODB's own in front of a FileStorage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.zodb import databases, zeo_client
from dyno.engines.zodb.server_zeo import INVALIDATION_QUEUE, ZEO

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # That of the server's FileStorage: each commit is flushed (fsync) before it is acknowledged.
    Tier.POWER: {"fsync": "each commit"},
}


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    return ZEO(home, int(options["invalidation_queue"]))


class Client:
    """A storage of the server; each client that is a process has a cache of its own."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._options, self._server = options, server
        self._name = server.storage(home)
        self.database = databases.database(zeo_client.storage(server, home, int(options["cache_mib"])))

    def close(self) -> None:
        self.database.close()

    def forget(self) -> None:
        self.database.storage._cache.clear()

    def version(self) -> str:
        return databases.versions("ZEO")

    def settings(self) -> Mapping[str, Value | None]:
        names = ("cache_mib", "invalidation_queue", "sharing")
        return {**TIERS[Tier.POWER], **{name: self._options[name] for name in names}, "transport": "socket"}

    def files(self) -> Iterable[Path]:
        return databases.files(self._server.file(self._name), self._server.blobs(self._name))

    def caveats(self) -> Iterable[Caveat]:
        return ()


ENGINE = EngineSpec(
    name="zeo",
    title="ZEO, a server in front of ZODB's FileStorage",
    opener=Client,
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    default_tier=Tier.POWER,
    modules=("ZODB", "ZEO"),
    requires=(*databases.REQUIRES, "ZEO>=6"),
    options=(
        Setting("cache_mib", integer(1), 256, "cache of each client process, in MiB (ZEO's default: 20)"),
        Setting("invalidation_queue", integer(1), INVALIDATION_QUEUE, "last transactions, read at a server's start"),
        databases.SHARING,
    ),
    server=serve,
    seldom=databases.APPENDED,
    clients="processes",
    sharing=databases.sharing,
    by_default=False,
)
