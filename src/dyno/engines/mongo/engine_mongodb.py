"""MongoDB by pymongo: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting, boolean, integer
from dyno.engines.mongo import server_mongo
from dyno.engines.mongo.server_mongodb import KIND, MongoDB, missing
from dyno.host import filesystem
from dyno.servers import namespace, program_option, set_option, user_server
from dyno.servers.user_server import URL, UserServer
from dyno.suites.records.port import FIELDS

# A write's log waits in the server's own memory, and reaches the device each 100 ms. More than volatile is only a
# write that waits for that flush: none waits for the kernel alone. MongoDB Inc., MongoDB Manual, "Journaling".
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"w": 1, "journal": False},
    Tier.PROCESS: {"w": 1, "journal": True},
    Tier.POWER: {"w": 1, "journal": True},
}
CACHE_MIB = 2_048
"""What a transaction has written stays in the cache until it ends, and no more than a fifth of that may be unwritten:
eviction_dirty_trigger of WiredTiger. So the bulk phases need far more than other engines' caches have."""


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return UserServer(str(options[URL]))
    return MongoDB(home, int(options["cache_mib"]), program_option.given(options))


class Mongo:
    """One database on the server; every client process has a client of its own."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self._server, self._options, self._tier = server, options, tier
        self._name = namespace.of(home)
        self._client = server_mongo.connect(server, **TIERS[tier])
        try:
            if not server.own:
                _refuse(tier, self._client, bool(options["transactions"]))
        except BaseException:
            self._client.close()
            raise
        self.database = self._client[self._name]

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        if not self._options["transactions"]:
            yield None
            return
        with self._client.start_session() as session, session.start_transaction():
            yield session

    def close(self) -> None:
        self._client.close()

    def version(self) -> str:
        return server_mongo.version(self._client)

    def settings(self) -> Mapping[str, Value | None]:
        concern = self.database.write_concern.document
        return {
            "w": concern.get("w"),
            "journal": concern.get("j"),
            "transactions": self._options["transactions"],
            "cache_mib": _cache_mib(self._client),
            **user_server.transport(self._server, server_mongo.encrypted(self._client)),
            "bson": server_mongo.bson_code(),
        }

    def files(self) -> Iterable[Path]:
        """Of its collection and indexes. The journal and the oplog are beside them, and those of other databases."""
        if not self._server.own:
            return ()
        return [path for path in filesystem.files(self._server.data / self._name) if path.suffix == ".wt"]

    def caveats(self) -> Iterable[Caveat]:
        if not self._options["transactions"]:
            yield Caveat("not-atomic", "uses no transactions: one of several records is written message by message")
        if self._server.own:
            yield Caveat("log-apart", "has its journal and its oplog beside its collections, and not in its size")
            yield Caveat(
                "cache", f"has a cache of {self._options['cache_mib']} MiB, in which its transactions must fit"
            )
        else:
            yield from user_server.caveats(server_mongo.encrypted(self._client))
            concern = ", ".join(f"{name}={value}" for name, value in TIERS[self._tier].items())
            yield Caveat("session", f"writes with {concern}, whatever the server's default write concern is")


def _cache_mib(client: Any) -> int | None:
    """As the server tells it; None for one that does not."""
    limit = (
        client.admin.command("serverStatus").get("wiredTiger", {}).get("cache", {}).get("maximum bytes configured")
    )
    return None if limit is None else int(limit) >> 20


def _refuse(tier: Tier, client: Any, transactions: bool) -> None:
    """A user's own server is left as it is set: what it must at least give is looked at."""
    hello = client.admin.command("hello")
    # A replica set's members tell its name; what stands before a cluster of shards says what it is.
    if transactions and "setName" not in hello and hello.get("msg") != "isdbgrid":
        raise Refused("the server is in no replica set, so that it has no transactions; try transactions=no")
    if tier is not Tier.VOLATILE and not _journals(client):
        raise Refused(f"the server does not say that it keeps a journal, so that it can't give tier {tier.value}")


def _journals(client: Any) -> bool:
    """Whether its storage engine keeps anything when it ends. Since 6.1 that implies a journal."""
    return bool(client.admin.command("serverStatus").get("storageEngine", {}).get("persistent"))


def records(engine: Mongo, indexed: bool) -> Any:
    from dyno.engines.mongo.records import DocumentRecords

    return DocumentRecords(engine.database, indexed, engine.transaction)


RECORDS = PortSpec(records, caveats=(FIELDS,))

ENGINE = EngineSpec(
    name="mongodb",
    title="MongoDB, a document server (pymongo)",
    opener=Mongo,
    ports={"records": RECORDS},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("pymongo",),
    requires=("pymongo>=4.6",),
    options=(
        user_server.setting("mongodb", "mongodb+srv"),
        Setting("transactions", boolean, True, "write several records in one transaction; no: message by message"),
        Setting("cache_mib", integer(256), CACHE_MIB, "cache of a server of Dyno's own, in MiB"),
        KIND.setting,
    ),
    refuse=set_option.refused,
    server=serve,
    remove=lambda home, options, server: server_mongo.remove(home, server),
    removal=server_mongo.removal,
    missing_right=server_mongo.missing_right,
    needs=lambda options: None if options[URL] else missing(program_option.given(options)),
    clients="processes",
    by_default=False,
    untested="no mongod was to be had where Dyno is made; what it shares with ferretdb is tested there",
)
