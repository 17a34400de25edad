"""MongoDB through pymongo: a server that Dyno starts, or the user's own."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dyno.contracts.engine import PortSpec, Server
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting, boolean, integer
from dyno.engines.mongo.server_mongodb import PROGRAM, MongoDB
from dyno.engines.mongo.store import CLIENT_SETTING, SCHEMES, DocumentStore
from dyno.host import filesystem
from dyno.servers import program_option
from dyno.servers.server_engine import server_engine
from dyno.suites.records.port import FIELDS

# The server flushes the log every 100 ms; until then a log entry is in the server's memory. A write either is
# volatile or waits for that flush: it can't wait for the kernel alone. Source: MongoDB Inc., MongoDB Manual,
# "Journaling".
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"w": 1, "journal": False},
    Tier.PROCESS: {"w": 1, "journal": True},
    Tier.POWER: {"w": 1, "journal": True},
}
CACHE_MIB = 2_048
"""Default size of the server's cache. Changes of a transaction stay in the cache until it ends, and at most a fifth
of the cache may be dirty (eviction_dirty_trigger of WiredTiger). So the bulk phases need a far larger cache than in
other engines."""


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    return MongoDB(home, int(str(options["cache_mib"])), program_option.given(options))


class Mongo(DocumentStore):
    """A store in one database on the server. Every client process has its own pymongo client."""

    @property
    def concern(self) -> Mapping[str, Any]:
        return TIERS[self.tier]

    def check_tier(self) -> None:
        if not self.server.own:
            _refuse(self.tier, self.client, bool(self.options["transactions"]))

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        if not self.options["transactions"]:
            yield None
            return
        concern = self.database.write_concern
        with self.client.start_session() as session, session.start_transaction(write_concern=concern):
            yield session

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        concern = self.database.write_concern.document
        return {
            "w": concern.get("w"),
            "journal": concern.get("j"),
            "transactions": self.options["transactions"],
            "cache_mib": _cache_mib(self.client),
        }

    def own_files(self) -> Iterable[Path]:
        """Returns the files of the store's collection and indexes. The journal and the oplog are not included."""
        return [path for path in filesystem.files(self.server.data / self.name) if path.suffix == ".wt"]

    def caveats(self) -> Iterable[Caveat]:
        yield from super().caveats()
        if not self.options["transactions"]:
            yield Caveat("not-atomic", "uses no transactions: one of several records is written message by message")
        if self.server.own:
            yield Caveat("log-apart", "has its journal and its oplog beside its collections, and not in its size")
            size = self.options["cache_mib"]
            yield Caveat("cache", f"has a cache of {size} MiB, in which its transactions must fit")
        else:
            concern = ", ".join(f"{name}={value}" for name, value in TIERS[self.tier].items())
            yield Caveat("session", f"writes with {concern}, whatever the server's default write concern is")


def _cache_mib(client: Any) -> int | None:
    """Returns the size of the cache; None if the server doesn't report it."""
    limit = (
        client.admin.command("serverStatus").get("wiredTiger", {}).get("cache", {}).get("maximum bytes configured")
    )
    return None if limit is None else int(limit) >> 20


def _refuse(tier: Tier, client: Any, transactions: bool) -> None:
    """Raises Refused if a user's server lacks what the tier or transactions need."""
    hello = client.admin.command("hello")
    # Members of a replica set report its name, and routers of a sharded cluster report `isdbgrid`.
    if transactions and "setName" not in hello and hello.get("msg") != "isdbgrid":
        raise Refused("the server is in no replica set, so that it has no transactions; try transactions=no")
    if tier is not Tier.VOLATILE and not _journals(client):
        raise Refused(f"the server does not say that it keeps a journal, so that it can't give tier {tier.value}")


def _journals(client: Any) -> bool:
    """Returns whether the storage engine is persistent, which implies a journal since version 6.1."""
    return bool(client.admin.command("serverStatus").get("storageEngine", {}).get("persistent"))


def records(engine: Mongo, indexed: bool) -> Any:
    from dyno.engines.mongo.records import DocumentRecords

    return DocumentRecords(engine.database, indexed, engine.transaction, native=engine.native)


ENGINE = server_engine(
    Mongo,
    name="mongodb",
    title="MongoDB, a document server (pymongo)",
    schemes=SCHEMES,
    start=start,
    program=PROGRAM,
    ports={"records": PortSpec(records, caveats=(FIELDS,))},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("pymongo",),
    requires=("pymongo>=4.6",),
    options=(
        CLIENT_SETTING,
        Setting("transactions", boolean, True, "write several records in one transaction; no: message by message"),
        Setting("cache_mib", integer(256), CACHE_MIB, "cache of a server of Dyno's own, in MiB"),
    ),
    clients="processes",
    untested="no mongod was to be had where Dyno is made; what it shares with ferretdb is tested there",
)
