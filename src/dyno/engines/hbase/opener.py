"""HBase's server and a table on it: tiers, settings, files and caveats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Server
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.hbase.server import PROGRAM, HBase, connected
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, namespace, set_option, user_server
from dyno.servers.user_server import URL, UserServer

SYNC = "hbase.wal.hsync"
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A write waits until the kernel has its place in the log. The gateway asks for exactly that with each write
    # (SYNC_WAL), so that `hbase.wal.hsync`, by which the log would be flushed, is of no effect.
    Tier.PROCESS: {SYNC: "false"},
}
PORT, MOST_NODES = 9_090, 9


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return UserServer(str(options[URL]))
    nodes = int(options["nodes"])
    heap = int(options["heap_mib"]) or (1_024 if nodes == 1 else 512)
    return HBase(home, {SYNC: str(TIERS[tier][SYNC]), **set_option.given(options)}, nodes, heap)


class Base:
    """One table."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self.server, self.options = server, options
        self.name = namespace.of(home)
        self.waiting = 0
        """Samples that may be in memory and in the log only."""
        self.connection = connected(_address(server))
        try:
            if not server.own:
                for name in namespace.abandoned([table.decode() for table in self.connection.tables()]):
                    self.connection.delete_table(name, disable=True)
        except BaseException:
            self.close()
            raise

    def connect(self) -> Any:
        """A further connection."""
        return connected(_address(self.server))

    def flush(self) -> None:
        """Writes what is in memory into files, as it would be some time. The gateway has no word for that alone."""
        if self.server.own and self.waiting:
            self.connection.disable_table(self.name)
            self.connection.enable_table(self.name)
            self.waiting = 0

    def close(self) -> None:
        self.connection.close()

    def version(self) -> str:
        server = f"HBase {PROGRAM.version}" if self.server.own else "HBase of an unknown version"
        return f"{server} (happybase {version('happybase')})"

    def settings(self) -> Mapping[str, Value | None]:
        """It does not tell them: they are as they were given, but for its ports and places."""
        told = self.server.settings if self.server.own else {}
        names = dict.fromkeys((SYNC, "hbase.wal.provider", "fs.file.impl", *set_option.to_read(self.options)))
        return {
            **{name: told.get(name) for name in names},
            "nodes": self.server.count if self.server.own else None,
            "compression": self.options["compression"],
            **user_server.transport(self.server, False, "loopback"),
        }

    def files(self) -> Iterable[Path]:
        """Of its table. What is in memory is in the log, which all tables share, and in none of these."""
        return filesystem.files(self.server.root / "data" / "default" / self.name) if self.server.own else ()

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("batches", "has no transaction over several rows: a batch of samples is many writes")
        yield Caveat("gateway", "is reached by way of its Thrift gateway, a process of its own")
        if self.options[set_option.SET]:
            yield set_option.CAVEAT
        if not self.server.own:
            yield from user_server.caveats(False)


def _address(server: Any) -> loopback.Address:
    return server.address if server.own else loopback.of_url(server.url, PORT, ())


def removal(name: str, options: Mapping[str, Value]) -> str:
    """By a node of the cluster: the gateway of the address has no shell."""
    return f"""echo "disable '{name}'; drop '{name}'" | hbase shell"""


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    with closing(connected(_address(server))) as connection:
        if namespace.of(home).encode() in connection.tables():
            connection.delete_table(namespace.of(home), disable=True)
