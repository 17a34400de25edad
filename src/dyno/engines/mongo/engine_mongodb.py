"""MongoDB through pymongo: a server that Dyno starts, or the user's own.

Dyno's server is the only member of a replica set, because transactions need a replica set. The client requests the
tier with each write. Source: MongoDB Inc., MongoDB Manual, "mongod" and "mongod Parameters".
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from dyno.contracts.engine import PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Unavailable, Value
from dyno.contracts.settings import Setting, boolean, integer
from dyno.engines.mongo.store import CLIENT_SETTING, SCHEMES, DocumentRecords, DocumentStore, connect
from dyno.host import filesystem
from dyno.servers import program_option
from dyno.servers.process import READY_SECONDS, Process, accepts
from dyno.servers.server_engine import server_engine
from dyno.suites.records.port import FIELDS

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession

PROGRAM = program_option.ServerProgram(
    *("MongoDB server", r"db version v(\d[\d.]*)"),
    least="5.0",
    names=("mongod",),
    install="install MongoDB Community Edition from its vendor's packages",
)
SET = "dyno"
PARAMETERS = {
    # A transaction may take as long as its phase. The default is 60 s.
    "transactionLifetimeLimitSeconds": 86_400,
    # By default, shutdown waits 15 s for another member to take over.
    "shutdownTimeoutMillisForSignaledShutdown": 0,
}


class MongoDB(Process):
    """A mongod on a socket in its directory, which no other user may enter. `path` is the user's program."""

    def __init__(self, home: Path, cache_mib: int, path: str = "") -> None:
        self.data = home / "data"
        # Use mongod's default name for this port. Otherwise it would create a second socket elsewhere.
        self.path = home / "mongodb-27017.sock"
        # Connect directly: the client need not look for other members of the replica set.
        self.address = f"mongodb://{quote(str(self.path), safe='')}/?directConnection=true"
        words = [word for name, value in PARAMETERS.items() for word in ("--setParameter", f"{name}={value}")]
        # Give each database its own directory, so that its files can be counted.
        words += ["--dbpath", str(self.data), "--directoryperdb", "--replSet", SET, "--bind_ip", str(self.path)]
        words += ["--unixSocketPrefix", str(home), "--wiredTigerCacheSizeGB", str(cache_mib / 1024)]
        super().__init__([PROGRAM.executable(path), *words], home, lambda: accepts(self.path), unix=self.path)

    def prepare(self) -> None:
        self.data.mkdir(exist_ok=True)

    def start(self) -> None:
        new = not self.data.exists()
        super().start()
        try:
            with closing(connect(self)) as client:
                if new:
                    member = {"_id": 0, "host": str(self.path)}
                    client.admin.command("replSetInitiate", {"_id": SET, "members": [member]})
                deadline = time.monotonic() + READY_SECONDS
                # Until the server has elected itself primary, it refuses writes.
                while not client.admin.command("hello").get("isWritablePrimary"):
                    if time.monotonic() > deadline:
                        raise Unavailable(
                            f"mongod did not become the primary of its replica set in {READY_SECONDS:g} s"
                        )
                    time.sleep(0.01)
        except BaseException:
            self.kill()
            raise


# The server flushes the log every 100 ms; until then a log entry is in the server's memory. A write either is
# volatile or waits for that flush: it can't wait for the kernel alone. Source: MongoDB Manual, "Journaling".
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"w": 1, "journal": False},
    Tier.PROCESS: {"w": 1, "journal": True},
    Tier.POWER: {"w": 1, "journal": True},
}
CACHE_MIB = 2_048
"""Default size of the server's cache. Changes of a transaction stay in the cache until it ends, and at most a fifth
of the cache may be dirty (eviction_dirty_trigger of WiredTiger). So the bulk phases need a large cache."""


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    return MongoDB(home, int(str(options["cache_mib"])), program_option.get_path(options))


class Mongo(DocumentStore):
    @property
    def concern(self) -> Mapping[str, Value]:
        return TIERS[self.tier]

    def check_tier(self) -> None:
        """Raises Refused if a user's server lacks what the tier or transactions need."""
        if self.server.own:
            return
        command = self.client.admin.command
        hello = command("hello")
        # Members of a replica set report its name, and routers of a sharded cluster report `isdbgrid`.
        if self.options["transactions"] and "setName" not in hello and hello.get("msg") != "isdbgrid":
            raise Refused("the server is in no replica set, so that it has no transactions; try transactions=no")
        # A persistent storage engine has had a journal since version 6.1.
        if self.tier is not Tier.VOLATILE and not command("serverStatus").get("storageEngine", {}).get("persistent"):
            why = "the server does not say that it keeps a journal"
            raise Refused(f"{why}, so that it can't give tier {self.tier.value}")

    @contextmanager
    def transaction(self) -> Iterator[ClientSession | None]:
        if not self.options["transactions"]:
            yield None
            return
        concern = self.database.write_concern
        with self.client.start_session() as session, session.start_transaction(write_concern=concern):
            yield session

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        concern = self.database.write_concern.document
        cache = self.client.admin.command("serverStatus").get("wiredTiger", {}).get("cache", {})
        limit = cache.get("maximum bytes configured")
        return {
            "w": concern.get("w"),
            "journal": concern.get("j"),
            "transactions": self.options["transactions"],
            "cache_mib": None if limit is None else int(limit) >> 20,
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


ENGINE = server_engine(
    Mongo,
    name="mongodb",
    title="MongoDB, a document server (pymongo)",
    schemes=SCHEMES,
    start=start,
    program=PROGRAM,
    ports={"records": PortSpec(DocumentRecords, caveats=(FIELDS,))},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    installation=Installation(modules=("pymongo",), requires=("pymongo>=4.6",)),
    options=(
        CLIENT_SETTING,
        Setting("transactions", boolean, True, "write several records in one transaction; no: message by message"),
        Setting("cache_mib", integer(256), CACHE_MIB, "cache of a server of Dyno's own, in MiB"),
    ),
    clients="processes",
    untested="no mongod was to be had where Dyno is made; what it shares with ferretdb is tested there",
)
