"""Engines on ZODB's storages: in memory, in a file, on a ZEO server, in an Oracle database and on NEO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.engine import CrashSpec, EngineSpec, Listing, PortSpec, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.zodb import databases
from dyno.servers import loopback, user_server
from dyno.servers.user_server import URL, UserServer

if TYPE_CHECKING:
    from ZODB.DemoStorage import DemoStorage
    from ZODB.MappingStorage import MappingStorage


def _mappingstorage() -> MappingStorage:
    from ZODB.MappingStorage import MappingStorage

    return MappingStorage()


MAPPINGSTORAGE = databases.in_memory("mappingstorage", "ZODB's MappingStorage, in memory", _mappingstorage)


def _demostorage() -> DemoStorage:
    from ZODB.DemoStorage import DemoStorage
    from ZODB.interfaces import IBlobStorage
    from zope.interface import noLongerProvides

    demo = DemoStorage()
    # By default DemoStorage creates a temporary directory for blobs, which outlives a killed trial.
    noLongerProvides(demo, IBlobStorage)
    return demo


DEMOSTORAGE = databases.in_memory("demostorage", "ZODB's DemoStorage, changes in memory over a base", _demostorage)


TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # FileStorage flushes each commit (fsync) before it is acknowledged, with or without ZEO. No setting changes that.
    Tier.POWER: {"fsync": "each commit"},
}


class File(databases.Database):
    """A FileStorage: a file, its index and a directory of blobs. Clients are threads that share the database."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from ZODB.FileStorage import FileStorage

        self._paths = home / "Data.fs", home / "blobs"
        file, blobs = map(str, self._paths)
        super().__init__(FileStorage(file, blob_dir=blobs))

    def settings(self) -> Mapping[str, Value | None]:
        return {**TIERS[Tier.POWER], "pack_keep_old": True}

    def files(self) -> Iterable[Path]:
        return databases.files(*self._paths)


FILESTORAGE = EngineSpec(
    name="filestorage",
    title="ZODB's FileStorage, a file in the process",
    opener=File,
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    installation=Installation(modules=("ZODB",), requires=databases.REQUIRES),
    versions=Versions((Wheel("ZODB"),)),
    clients="threads",
    crashes=CrashSpec(databases.APPENDED),
)


class Client(databases.Database):
    """A ZODB database on one of the server's storages. Each client process has its own cache."""

    distributions = ("ZEO",)

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: databases.ZEO) -> None:
        self._options, self._server = options, server
        self._name = server.storage(home)
        super().__init__(databases.open_storage(server, home, int(str(options["cache_mib"]))))

    def forget(self) -> None:
        self.database.storage._cache.clear()

    def settings(self) -> Mapping[str, Value | None]:
        names = ("cache_mib", "invalidation_queue", "sharing")
        return {**TIERS[Tier.POWER], **{name: self._options[name] for name in names}, "transport": "socket"}

    def files(self) -> Iterable[Path]:
        return databases.files(self._server.file(self._name), self._server.blobs(self._name))


ZEO = EngineSpec(
    name="zeo",
    title="ZEO, a server in front of ZODB's FileStorage",
    opener=Client,
    server=ServerSpec(
        lambda home, tier, options, clients: databases.ZEO(home, int(str(options["invalidation_queue"]))),
        library_works=True,
    ),
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    installation=Installation(modules=("ZODB", "ZEO"), requires=(*databases.REQUIRES, "ZEO>=6")),
    options=(
        Setting("cache_mib", integer(1), 256, "cache of each client process, in MiB (ZEO's default: 20)"),
        Setting(
            "invalidation_queue",
            integer(1),
            databases.INVALIDATION_QUEUE,
            "last transactions, read at a server's start",
        ),
        databases.SHARING,
    ),
    crashes=CrashSpec(databases.APPENDED),
    clients="processes",
    sharing=databases.get_sharing,
    listing=Listing(by_default=False),
)


ORACLE_TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Oracle's default: a commit waits until the log is written.
    Tier.POWER: {"commit_logging": "immediate", "commit_wait": "wait"},
}


class Oracle(databases.Database):
    """RelStorage on the user's own Oracle server, in tables of the URL's user. This engine has never been run."""

    distributions = ("RelStorage",)

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: UserServer) -> None:
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


RELSTORAGE_ORACLE = EngineSpec(
    name="relstorage_oracle",
    title="RelStorage, ZODB in an Oracle database",
    opener=Oracle,
    server=ServerSpec(
        lambda home, tier, options, clients: UserServer(
            str(options[URL]), partial(loopback.of_url, port=1_521, secure=())
        ),
        library_works=True,
    ),
    ports={"objects": PortSpec(databases.Objects)},
    tiers=ORACLE_TIERS,
    installation=Installation(
        modules=("ZODB", "relstorage", "cx_Oracle"),
        requires=(*databases.REQUIRES, "RelStorage>=4", "cx_Oracle>=8; python_version < '3.11'"),
        # This is the last Python version for which cx_Oracle has binary wheels.
        python="3.10",
        needs=lambda options: None if options[URL] else "needs an Oracle server of your own: name it with url=",
    ),
    options=(
        user_server.setting("oracle"),
        Setting("history", choice("keep", "free"), "keep", "whether old states are kept until a pack"),
        Setting("cache_mib", integer(1), 256, "cache of each client, in MiB (RelStorage's default: 10)"),
    ),
    clients="processes",
    listing=Listing(
        by_default=False,
        untested="no Oracle server could be had where Dyno is made; it is RelStorage's adapter and no more",
    ),
)

NO_NEO = "its newest release, neoppod 1.12 of 2019, runs on Python 2.7 only, and Dyno's trials run on 3.10 and later"
# Only declared, so that `dyno list` says why it can't run.
NEO = EngineSpec(
    name="neo",
    title="NEO, ZODB distributed over servers",
    opener=databases.Database,
    ports={"objects": PortSpec(databases.Objects)},
    tiers={Tier.POWER: {}},
    installation=Installation(needs=lambda options: f"can't be run: {NO_NEO}"),
    clients="processes",
    listing=Listing(by_default=False, untested=NO_NEO),
)
