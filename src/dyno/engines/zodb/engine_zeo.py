"""ZEO: ZODB's own server, in front of a FileStorage."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.engines.zodb import databases
from dyno.engines.zodb.server_zeo import INVALIDATION_QUEUE, ZEO, open_storage

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # The server's FileStorage flushes each commit (fsync) before it acknowledges it.
    Tier.POWER: {"fsync": "each commit"},
}


class Client(databases.Database):
    """A ZODB database on one of the server's storages. Each client process has its own cache."""

    distributions = ("ZEO",)

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._options, self._server = options, server
        self._name = server.storage(home)
        super().__init__(open_storage(server, home, int(str(options["cache_mib"]))))

    def forget(self) -> None:
        self.database.storage._cache.clear()

    def settings(self) -> Mapping[str, Value | None]:
        names = ("cache_mib", "invalidation_queue", "sharing")
        return {**TIERS[Tier.POWER], **{name: self._options[name] for name in names}, "transport": "socket"}

    def files(self) -> Iterable[Path]:
        return databases.files(self._server.file(self._name), self._server.blobs(self._name))


ENGINE = EngineSpec(
    name="zeo",
    title="ZEO, a server in front of ZODB's FileStorage",
    opener=Client,
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    modules=("ZODB", "ZEO"),
    requires=(*databases.REQUIRES, "ZEO>=6"),
    options=(
        Setting("cache_mib", integer(1), 256, "cache of each client process, in MiB (ZEO's default: 20)"),
        Setting("invalidation_queue", integer(1), INVALIDATION_QUEUE, "last transactions, read at a server's start"),
        databases.SHARING,
    ),
    server=lambda home, tier, options, clients: ZEO(home, int(str(options["invalidation_queue"]))),
    seldom=databases.APPENDED,
    clients="processes",
    sharing=databases.sharing,
    by_default=False,
)
