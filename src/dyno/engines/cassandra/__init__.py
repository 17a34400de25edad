"""Apache Cassandra through cassandra-driver: a node or a cluster that Dyno starts, or the user's own.

Sources: Apache Software Foundation, Cassandra 5.0 documentation; DataStax, Python Driver documentation.
"""

import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.cassandra.server import NODE_SECONDS, OURS, PROGRAM, Cassandra, Session
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, set_option
from dyno.servers.cluster import KEEPS
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.servers.user_server import URL

SYNC, MOST_NODES = "commitlog_sync", 9
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # The commit log is flushed every 10 s. A killed node loses the writes since its last mark in the log, which it
    # makes every 100 ms.
    Tier.VOLATILE: {SYNC: "periodic"},
    # A write waits until its entry in the commit log has been flushed.
    Tier.POWER: {SYNC: "batch"},
}
FLUSHED = ("batch", "group")
"""Values of commitlog_sync with which a write waits for the flush."""


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    nodes = int(str(options["nodes"]))
    heap = int(str(options["heap_mib"])) or (1_024 if nodes == 1 else 512)
    period = {"commitlog_sync_period": "10000ms"} if tier is Tier.VOLATILE else {}
    server = Cassandra(home, set_option.combined(TIERS[tier], options, **period), nodes, heap)
    server.copies = copies = int(str(options["replication"])) or min(nodes, 3)
    required = {"ONE": 1, "TWO": 2, "QUORUM": copies // 2 + 1, "ALL": copies}[str(options["consistency"])]
    # An acknowledged write is on two nodes, and can still be read after the loss of one. With ALL, too few are left.
    server.survives = 2 <= required < copies and 2 * required > copies
    return server


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    if not options[URL] and int(str(options["replication"])) > int(str(options["nodes"])):
        return f"replication={options['replication']} needs as many nodes: use nodes={options['replication']}"
    return None


class Cass(ServerStore):
    """A store in one keyspace."""

    shown = (
        SYNC,
        "num_tokens",
        "memtable_heap_space",
        "concurrent_writes",
        "commitlog_segment_size",
        "file_cache_size",
    )
    unflushed = 0
    """Number of samples that may be only in memory and in the commit log."""

    @classmethod
    def open_client(cls, server: Any, options: Mapping[str, Value]) -> Session:
        return Session(server.addresses if server.own else [server.address], str(options["consistency"]))

    @classmethod
    def stores(cls, client: Session) -> Iterable[str]:
        return [name for (name,) in client.execute("SELECT keyspace_name FROM system_schema.keyspaces")]

    @classmethod
    def drop(cls, client: Session, name: str) -> None:
        client.execute(f"DROP KEYSPACE IF EXISTS {name}")

    def create(self) -> None:
        copies = f"{{'class': 'NetworkTopologyStrategy', 'replication_factor': {self.replication}}}"
        self.client.execute(f"CREATE KEYSPACE IF NOT EXISTS {self.name} WITH replication = {copies}")

    @property
    def replication(self) -> int:
        return int(self.server.copies) if self.server.own else int(str(self.options["replication"])) or 3

    def durability(self) -> Mapping[str, str | None]:
        row = self.client.execute(f"SELECT value FROM system_views.settings WHERE name = '{SYNC}'").one()
        return {SYNC: None if row is None else str(row[0])}

    @staticmethod
    def weaker(tier: Tier, settings: Mapping[str, Any]) -> str | None:
        return None if tier is Tier.VOLATILE or settings[SYNC] in FLUSHED else f"{SYNC}={settings[SYNC]}"

    def connect(self) -> Any:
        """Returns a new session on this store's keyspace."""
        return self.client.cluster.connect(self.name)

    def version(self) -> str:
        ((number,),) = self.client.execute("SELECT release_version FROM system.local")
        return f"Cassandra {number} (cassandra-driver {version('cassandra-driver')})"

    def settings(self) -> Mapping[str, Value | None]:
        return {
            **super().settings(),
            "nodes": len(self.client.cluster.metadata.all_hosts()),
            "replication": self.replication,
            "consistency": self.options["consistency"],
            "survives_a_node": self.server.survives if self.server.own else None,
        }

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        values = dict(self.client.execute("SELECT name, value FROM system_views.settings"))
        return {name: values.get(name) for name in names}

    def own_files(self) -> Iterable[Path]:
        """Returns the files of the store's tables on all nodes. Commit logs, which also hold the data in memory, are
        not included."""
        return filesystem.files(*(data / self.name for data in self.server.data()))

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("batches", "has no transaction over several variables: a batch of samples is many writes")
        yield from super().caveats()
        if self.server.own and self.server.survives:
            yield KEEPS
        elif self.server.own and self.server.count > 1:
            yield Caveat("node", "may lose what it acknowledged when one of its nodes dies for good, at any tier")

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        return " ".join(str(error).split()) if type(error).__name__ == "Unauthorized" else None

    @classmethod
    def removal(cls, name: str, address: Any) -> str:
        words = ["cqlsh", address.host, str(address.port), "-u", address.user]
        return shlex.join([*words, "-e", f"DROP KEYSPACE {name}"])


ENGINE = server_engine(
    Cass,
    name="cassandra",
    title="Apache Cassandra, a store of wide rows (cassandra-driver)",
    schemes=("cassandra",),
    address=partial(loopback.of_url, port=9_042, secure=()),
    start=start,
    program=PROGRAM,
    settings=set_option.setting("settings", OURS),
    refuse=refuse,
    ports={"series": PortSpec("dyno.engines.cassandra.series:Series")},
    tiers=TIERS,
    default_tier=Tier.VOLATILE,
    modules=("cassandra",),
    requires=("cassandra-driver>=3.30",),
    options=(
        Setting("nodes", integer(1, MOST_NODES), 1, "nodes of a cluster of Dyno's own"),
        Setting("replication", integer(0, MOST_NODES), 0, "nodes that keep each sample; 0: all, but 3 at most"),
        Setting(
            "consistency",
            choice("ONE", "TWO", "QUORUM", "ALL"),
            "QUORUM",
            "of the nodes that keep it, those that a write or a read waits for",
        ),
        Setting("heap_mib", integer(0), 0, "memory of Java's for each node, in MiB; 0: 1024, or 512 of several"),
    ),
    starting=lambda options: 0.0 if options[URL] else NODE_SECONDS * int(str(options["nodes"])),
)
