"""RelStorage on Oracle, through RelStorage's adapter, on the user's own server. This engine has never been run."""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.zodb import databases
from dyno.servers import loopback, user_server
from dyno.servers.user_server import URL, UserServer

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Oracle's default: a commit waits until the log is written.
    Tier.POWER: {"commit_logging": "immediate", "commit_wait": "wait"},
}


parse_url = partial(loopback.of_url, port=1_521, secure=())


class Oracle(databases.Database):
    """A store in the schema of the URL's user, in which RelStorage creates its tables."""

    distributions = ("RelStorage",)

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        from relstorage.adapters.oracle import OracleAdapter
        from relstorage.options import Options
        from relstorage.storage import RelStorage

        chosen = Options(
            name="dyno",
            driver="cx_Oracle",
            keep_history=options["history"] == "keep",
            blob_dir=str(home / "blobs"),
            cache_local_mb=options["cache_mib"],
        )
        at = server.address
        dsn = f"{at.host}:{at.port}{at.path}"
        adapter = OracleAdapter(user=at.user, password=at.password, dsn=dsn, options=chosen)
        super().__init__(RelStorage(adapter, options=chosen))

    def forget(self) -> None:
        self.database.storage._cache.clear(load_persistent=False)

    def settings(self) -> Mapping[str, Value | None]:
        return {"driver": "cx_Oracle", "transport": "url", "tls": False}

    def caveats(self) -> Iterable[Caveat]:
        yield from user_server.caveats(False)


ENGINE = EngineSpec(
    name="relstorage_oracle",
    title="RelStorage, ZODB in an Oracle database",
    opener=Oracle,
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    modules=("ZODB", "relstorage", "cx_Oracle"),
    requires=(*databases.REQUIRES, "RelStorage>=4", "cx_Oracle>=8; python_version < '3.11'"),
    # This is the last Python version for which cx_Oracle has binary wheels.
    python="3.10",
    options=(
        user_server.setting("oracle"),
        Setting("history", choice("keep", "free"), "keep", "whether old states are kept until a pack"),
        Setting("cache_mib", integer(1), 256, "cache of each client, in MiB (RelStorage's default: 10)"),
    ),
    server=lambda home, tier, options, clients: UserServer(str(options[URL]), parse_url),
    needs=lambda options: None if options[URL] else "needs an Oracle server of your own: name it with url=",
    clients="processes",
    by_default=False,
    untested="no Oracle server could be had where Dyno is made; it is RelStorage's adapter and no more",
)
