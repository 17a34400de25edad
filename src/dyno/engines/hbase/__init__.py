"""Apache HBase through happybase, a client of its Thrift gateway. Dyno starts one or several nodes, or uses the
user's gateway.

Sources: Apache Software Foundation, Apache HBase Reference Guide; happybase, user guide.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import PortSpec, Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.hbase.server import NODE_SECONDS, OURS, PROGRAM, HBase, connected
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, set_option
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.servers.user_server import URL

SYNC, MOST_NODES = "hbase.wal.hsync", 9
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A write waits until its log entry has been written to the kernel. The gateway requests exactly that for each
    # write (SYNC_WAL), so `hbase.wal.hsync`, which would flush the log, has no effect.
    Tier.PROCESS: {SYNC: "false"},
}


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    nodes = int(str(options["nodes"]))
    heap = int(str(options["heap_mib"])) or (1_024 if nodes == 1 else 512)
    return HBase(home, set_option.combined(TIERS[tier], options), nodes, heap)


class Base(ServerStore):
    """A store in one table."""

    shown = (SYNC, "hbase.wal.provider", "fs.file.impl")
    unflushed = 0
    """Number of samples that may be only in memory and in the log."""

    @classmethod
    def open_client(cls, server: Any, options: Mapping[str, Value]) -> Any:
        return connected(server.address)

    @classmethod
    def stores(cls, client: Any) -> Iterable[str]:
        return [table.decode() for table in client.tables()]

    @classmethod
    def drop(cls, client: Any, name: str) -> None:
        if name.encode() in client.tables():
            client.delete_table(name, disable=True)

    def flush(self) -> None:
        """Writes samples from memory into files, as the server eventually does by itself. The gateway has no command
        for that, but disabling a table has this effect."""
        if self.server.own and self.unflushed:
            self.client.disable_table(self.name)
            self.client.enable_table(self.name)
            self.unflushed = 0

    def version(self) -> str:
        server = f"HBase {PROGRAM.pinned.version}" if self.server.own else "HBase of an unknown version"
        return f"{server} (happybase {version('happybase')})"

    def settings(self) -> Mapping[str, Value | None]:
        nodes = self.server.count if self.server.own else None
        return {**super().settings(), "nodes": nodes, "compression": self.options["compression"]}

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        # The gateway does not report settings, so return those that Dyno wrote.
        written = self.server.settings if self.server.own else {}
        return {name: written.get(name) for name in names}

    def own_files(self) -> Iterable[Path]:
        """Returns the files of the store's table. The log, which all tables share and which also holds the data in
        memory, is not included."""
        return filesystem.files(self.server.root / "data" / "default" / self.name)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("batches", "has no transaction over several rows: a batch of samples is many writes")
        yield Caveat("gateway", "is reached by way of its Thrift gateway, a process of its own")
        yield from super().caveats()

    @classmethod
    def removal(cls, name: str, address: Any) -> str:
        # The command runs on a node of the cluster, because the gateway has no shell.
        return f"""echo "disable '{name}'; drop '{name}'" | hbase shell"""


ENGINE = server_engine(
    Base,
    name="hbase",
    title="Apache HBase, a store of wide rows (happybase)",
    schemes=("hbase",),
    address=partial(loopback.of_url, port=9_090, secure=()),
    start=start,
    program=PROGRAM,
    settings=set_option.setting("settings", OURS),
    ports={"series": PortSpec("dyno.engines.hbase.series:Series")},
    tiers=TIERS,
    modules=("happybase",),
    requires=("happybase>=1.3",),
    options=(
        Setting("nodes", integer(1, MOST_NODES), 1, "region servers of Dyno's own, which share their files"),
        Setting("heap_mib", integer(0), 0, "memory of Java's for each node, in MiB; 0: 1024, or 512 of several"),
        Setting("compression", choice("NONE", "GZ"), "NONE", "of its files"),
    ),
    starting=lambda options: 0.0 if options[URL] else NODE_SECONDS * (1 + int(str(options["nodes"]))),
)
