"""RelStorage on Oracle: its adapter, on a user's own server. Nobody has run it here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.zodb import databases
from dyno.servers import user_server
from dyno.servers.user_server import URL, UserServer
from dyno.text.passwords import mask_password

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Its default: a commit waits until the log is written.
    Tier.POWER: {"commit_logging": "immediate", "commit_wait": "wait"},
}


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    return UserServer(str(options[URL]))


class Oracle:
    """The schema of the address's user, in which RelStorage makes its tables."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        from relstorage.adapters.oracle import OracleAdapter
        from relstorage.options import Options
        from relstorage.storage import RelStorage

        parts = urlsplit(server.url)
        if not (parts.username and parts.hostname):
            raise Refused(
                "wants the address of a server: -e relstorage_oracle:url=oracle://user:password@host/service"
            )
        if parts.query:
            unknown = parts.query.partition("=")[0]
            raise Refused(f"{mask_password(server.url)}: unknown argument {unknown!r}; none is known")
        wanted = Options(
            name="dyno",
            driver="cx_Oracle",
            keep_history=options["history"] == "keep",
            blob_dir=str(home / "blobs"),
            cache_local_mb=options["cache_mib"],
        )
        made = OracleAdapter(
            user=unquote(parts.username),
            password=unquote(parts.password or ""),
            dsn=f"{parts.hostname}:{parts.port or 1521}{parts.path}",
            options=wanted,
        )
        self.database = databases.database(RelStorage(made, options=wanted))

    def close(self) -> None:
        self.database.close()

    def forget(self) -> None:
        self.database.storage._cache.clear(load_persistent=False)

    def version(self) -> str:
        return databases.versions("RelStorage")

    def settings(self) -> Mapping[str, Value | None]:
        return {"driver": "cx_Oracle", "transport": "url", "tls": False}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        yield from user_server.caveats(False)


ENGINE = EngineSpec(
    name="relstorage_oracle",
    title="RelStorage, ZODB in an Oracle database",
    opener=Oracle,
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    default_tier=Tier.POWER,
    modules=("ZODB", "relstorage", "cx_Oracle"),
    requires=(*databases.REQUIRES, "RelStorage>=4", "cx_Oracle>=8; python_version < '3.11'"),
    # The last version that it is compiled for.
    python="3.10",
    options=(
        user_server.setting("oracle"),
        Setting("history", choice("keep", "free"), "keep", "whether old states are kept until a pack"),
        Setting("cache_mib", integer(1), 256, "cache of each client, in MiB (RelStorage's default: 10)"),
    ),
    server=serve,
    needs=lambda options: None if options[URL] else "needs an Oracle server of your own: name it with url=",
    clients="processes",
    by_default=False,
    untested="no Oracle server could be had where Dyno is made; it is RelStorage's adapter and no more",
)
