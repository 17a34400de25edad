"""Apache HBase through happybase, a client of its Thrift gateway. Dyno starts one or several nodes, or uses the
user's gateway.

There are no passwords, because HBase authenticates users by Kerberos only. Sources: Apache Software Foundation,
Apache HBase Reference Guide, "RegionServer/Rowkey Design" ("Monotonically Increasing Row Keys/Timeseries Data",
"Reverse Timestamps"), "Standalone HBase", "Pseudo-Distributed Local Install" and "Thrift API"; happybase, user guide.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

from dyno.contracts.engine import PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Unavailable, Value
from dyno.contracts.programs import Jars, Program
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import Setting, choice, integer
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, set_option
from dyno.servers.loopback import Address
from dyno.servers.process import Cluster, Process, directory
from dyno.servers.program_option import JavaProgram
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.servers.user_server import URL
from dyno.suites.series import port, samples
from dyno.suites.series.port import SampleBatch, Samples

if TYPE_CHECKING:
    import happybase

    from dyno.servers.listen import StoreServer

PROGRAM = JavaProgram(
    "HBase",
    Program(
        "hbase",
        "2.6.1",
        Jars(
            (
                "org.apache.hbase:hbase-server:2.6.1-hadoop3",
                # The server includes all dependencies of the gateway but one.
                "-org.apache.hbase:hbase-thrift:2.6.1",
                "-org.apache.thrift:libthrift:0.14.1",
            ),
            sha256="41ffd0261f86a3cad5161813100ec32c011284c30219d262bae91add0f55817d",
        ),
    ),
)
READY_SECONDS = 300.0
NODE_SECONDS = 20.0
"""Seconds that the master and each region server may take to start on two busy cores."""
PROBE_MS, TIMEOUT_MS = 15_000, 120_000
"""Timeouts in ms of a request while the server starts, and of later requests."""
_CLASSES = {
    "zookeeper": "zookeeper.HQuorumPeer",
    "master": "master.HMaster",
    "region": "regionserver.HRegionServer",
    "thrift": "thrift.ThriftServer",
}
SETTINGS = Path(__file__).with_name("settings.toml")
OURS = (
    *("hbase.rootdir", "hbase.tmp.dir", "hbase.cluster.distributed", "hbase.wal.hsync", "fs.file.impl"),
    *("hbase.zookeeper.quorum", "hbase.zookeeper.property.clientPort", "hbase.zookeeper.property.dataDir"),
    *("hbase.master.port", "hbase.regionserver.port", "hbase.master.hostname", "hbase.regionserver.hostname"),
)
"""Settings that users may not change."""
JAVA, LOGGING = (Path(__file__).with_name(name) for name in ("java.options", "log4j.properties"))


class HBase(Cluster[Process]):
    """One process with all parts, or ZooKeeper, a master and several region servers, and a Thrift gateway. All have
    their files in one directory. `settings` go into hbase-site.xml; `heap_mib` is the heap of a region server."""

    def __init__(self, home: Path, settings: Mapping[str, str], nodes: int, heap_mib: int) -> None:
        jars, java = PROGRAM.paths()
        self._home = home.absolute()
        self.root = self._home / "root"
        """The directory of all tables and logs."""
        (self.address,), (zookeeper, master, *regions) = loopback.cluster(home, 1, ports=2 + nodes)
        self._words = [java, f"@{JAVA}", f"-Djava.io.tmpdir={self._home / 'tmp'}", "-cp"]
        self._jars, self._heap = jars, heap_mib
        self._own = dict[Path, Mapping[str, str]]()
        """Settings of a process in addition to those of all processes, by its directory."""
        host, self._distributed = loopback.HOST, nodes > 1
        self.settings = {
            **toml(SETTINGS),
            **settings,
            "hbase.rootdir": f"file://{self.root}",
            "hbase.tmp.dir": str(self._home / "tmp"),
            "hbase.cluster.distributed": str(self._distributed).lower(),
            "hbase.localcluster.assign.random.ports": "false",
            "hbase.zookeeper.quorum": host,
            "hbase.zookeeper.property.clientPort": str(zookeeper),
            "hbase.zookeeper.property.clientPortAddress": host,
            "hbase.zookeeper.property.dataDir": str(self._home / "zookeeper"),
            "hbase.master.port": str(master),
            **{f"hbase.{part}.hostname": "localhost" for part in ("master", "regionserver")},
            **{f"hbase.{part}.ipc.address": host for part in ("master", "regionserver")},
        }
        parts = [self._process("master", {"hbase.regionserver.port": str(regions[0])}, master)]
        if nodes > 1:
            parts.insert(0, self._process("zookeeper", {}, zookeeper))
            for number, port in enumerate(regions):
                parts.append(self._process("region", {"hbase.regionserver.port": str(port)}, port, number + 1))
        self._regions = parts[-nodes:]
        super().__init__([*parts, self._process("thrift", {}, self.address.port)])

    def _process(self, role: str, own: Mapping[str, str], port: int, number: int = 0) -> Process:
        home = self._home / (f"{role}-{number}" if number else role)
        self._own[home] = own
        at = Address(loopback.HOST, port)
        started = [f"org.apache.hadoop.hbase.{_CLASSES[role]}", "start"]
        if role == "thrift":
            started += ["-p", str(port), "-b", at.host, "-threadpool"]
        # Processes other than region servers hold hardly any data.
        heap = 256
        if role == "region" or (not self._distributed and role == "master"):
            heap = self._heap
        words = [self._words[0], f"-Xmx{heap}M", *self._words[1:], f"{home}/conf:{self._jars}/*", *started]
        if role == "thrift":
            ready = partial(_answers, at)
        else:
            ready = partial(loopback.listens, at)
        return Process(words, home, ready, timeout=READY_SECONDS)

    def start(self) -> None:
        from html import escape

        directory(self._home)
        (self._home / "tmp").mkdir(exist_ok=True)
        for home, own in self._own.items():
            (home / "conf").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(LOGGING, home / "conf" / "log4j.properties")
            properties = "".join(
                f"<property><name>{name}</name><value>{escape(value, quote=False)}</value></property>"
                for name, value in {**self.settings, **own}.items()
            )
            (home / "conf" / "hbase-site.xml").write_text(f"<configuration>{properties}</configuration>\n")
        super().start()

    def stop(self) -> None:
        """Stops the region servers before the others, because they return their regions to a running master."""
        thrift, *parts = reversed(self.nodes)
        thrift.kill()
        self._call_all(Process.stop, [part for part in parts if part in self._regions])
        for part in parts:
            part.stop(signal.SIGTERM)

    @property
    def count(self) -> int:
        return len(self._regions)

    def lose(self, number: int) -> None:
        self._regions[number].kill()


def _answers(address: Address) -> bool:
    """Returns whether the gateway answers, for which it needs the master."""
    if not loopback.listens(address):
        return False
    try:
        with closing(connect_to_gateway(address, PROBE_MS)) as connection:
            connection.tables()
    except Refused:
        return False
    return True


def connect_to_gateway(address: Address, timeout_ms: int = TIMEOUT_MS) -> happybase.Connection:
    """Returns a connection to the gateway after a first successful request. Raises Refused."""
    import happybase
    from thriftpy2.thrift import TException

    try:
        connection = happybase.Connection(address.host, address.port, timeout=timeout_ms)
        connection.tables()
    except (OSError, TException) as error:
        raise Unavailable(f"can't connect to its server: {' '.join(str(error).split())}") from None
    return connection


SYNC, MOST_NODES = "hbase.wal.hsync", 9
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # A write waits until its log entry has been written to the kernel. The gateway requests exactly that for each
    # write (SYNC_WAL), so `hbase.wal.hsync`, which would flush the log, has no effect.
    Tier.PROCESS: {SYNC: "false"},
}


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    nodes = int(str(options["nodes"]))
    heap = int(str(options["heap_mib"])) or (1_024 if nodes == 1 else 512)
    return HBase(home, set_option.combine_settings(TIERS[tier], options), nodes, heap)


class Base(ServerStore):
    """A store in one table."""

    shown = (SYNC, "hbase.wal.provider", "fs.file.impl")
    unflushed = 0
    """Number of samples that may be only in memory and in the log."""

    @classmethod
    def open_client(cls, server: StoreServer[Address], options: Mapping[str, Value]) -> happybase.Connection:
        return connect_to_gateway(server.address)

    @classmethod
    def stores(cls, client: happybase.Connection) -> Iterable[str]:
        return [table.decode() for table in client.tables()]

    @classmethod
    def drop(cls, client: happybase.Connection, name: str) -> None:
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
        server = "HBase of an unknown version"
        if self.server.own:
            server = f"HBase {PROGRAM.pinned.version}"
        return f"{server} (happybase {version('happybase')})"

    def settings(self) -> Mapping[str, Value | None]:
        nodes = self.server.count if self.server.own else None
        return {**super().settings(), "nodes": nodes, "compression": self.options["compression"]}

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        # The gateway does not report settings, so return those that Dyno wrote.
        if self.server.own:
            written = self.server.settings
        else:
            written = {}
        return {name: written.get(name) for name in names}

    def own_files(self) -> Iterable[Path]:
        """Returns the files of the store's table, without the log, which all tables share."""
        return filesystem.files(self.server.root / "data" / "default" / self.name)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("batches", "has no transaction over several rows: a batch of samples is many writes")
        yield Caveat("gateway", "is reached by way of its Thrift gateway, a process of its own")
        yield from super().caveats()

    @classmethod
    def removal(cls, name: str, address: Address) -> str:
        # The command runs on a node of the cluster, because the gateway has no shell.
        return f"""echo "disable '{name}'; drop '{name}'" | hbase shell"""


Row = tuple[bytes, Mapping[bytes, bytes]]
"""A key, and the cells by column."""
PAGE = 10_000
"""Rows in one answer of a scan."""
FAMILY, COLUMN = "d", b"d:s"
LATEST = (1 << 63) - 1
"""Latest time. A key contains the difference between it and the sample's time, so that later samples come first."""
END = b"\0"
"""Ends the name in a key. Names don't contain this byte."""
KEY, CELL = Struct(">q"), Struct(">dhh")
CELLS = [("val", ">f8"), ("stat", ">i2"), ("sevr", ">i2")]


class Series(port.Series):
    """The port `series`. A row is a sample. Its key is made of the variable's name and the reversed time, so that the
    latest sample comes first. Buckets are computed in the client, because HBase has no such query."""

    def __init__(self, engine: Base, names: Sequence[str]) -> None:
        self._engine = engine
        self._prefixes = [name.encode() + END for name in names]
        self._numbers = {prefix: number for number, prefix in enumerate(self._prefixes)}
        self._connection = engine.connect()
        if engine.name.encode() not in self._connection.tables():
            family = {"max_versions": 1, "compression": engine.options["compression"], "bloom_filter_type": "ROW"}
            self._connection.create_table(engine.name, {FAMILY: family})
        self._table = self._connection.table(engine.name)
        # After the server's start, a read waits until the region is available.
        self._table.row(END)

    def insert(self, batch: SampleBatch) -> None:
        """Sends the batch in one request. A sample is one cell, because each cell is stored with its key."""
        prefixes = self._prefixes
        key = KEY.pack
        cell = CELL.pack
        self._engine.unflushed += len(batch.ts)
        with self._table.batch() as mutations:
            for pv, ts, *rest in samples.iterate_rows(batch):
                mutations.put(prefixes[pv] + key(LATEST - ts), {COLUMN: cell(*rest)})

    def settle(self) -> None:
        """Writes samples from memory into files."""
        self._engine.flush()

    def seen(self, pv: int, ts: int) -> bool:
        return bool(self._table.row(self._key(pv, ts)))

    def _key(self, pv: int, ts: int) -> bytes:
        return self._prefixes[pv] + KEY.pack(LATEST - ts)

    def one(self, pv: int) -> Samples:
        return self._read(row_prefix=self._prefixes[pv])

    def window(self, pv: int, start: int, end: int) -> Samples:
        return self._read(row_start=self._key(pv, end - 1), row_stop=self._key(pv, start - 1))

    def _read(self, **rows: bytes) -> Samples:
        columns = _columns(list(self._table.scan(batch_size=PAGE, **rows)))
        return samples.samples([values[::-1] for values in columns])

    def all(self) -> Iterator[SampleBatch]:
        """Yields all samples in the order of the keys."""
        page: list[Row] = []
        for row in self._table.scan(batch_size=PAGE):
            page.append(row)
            if len(page) == PAGE:
                yield self._batch(page)
                page = []
        if page:
            yield self._batch(page)

    def latest(self) -> SampleBatch:
        """Returns the first row of each variable, which is its latest sample."""
        rows = [row for prefix in self._prefixes for row in self._table.scan(row_prefix=prefix, limit=1)]
        return self._batch(rows)

    def _batch(self, rows: Sequence[Row]) -> SampleBatch:
        return samples.batch([[self._numbers[key[: -KEY.size]] for key, _ in rows], *_columns(rows)])

    def close(self) -> None:
        self._connection.close()


def _columns(rows: Sequence[Row]) -> list[port.Array]:
    """Returns times, values, statuses and severities, in the order of the rows."""
    import numpy as np

    times = np.frombuffer(b"".join([key[-KEY.size :] for key, _ in rows]), ">i8")
    cells = np.frombuffer(b"".join([cells[COLUMN] for _, cells in rows]), CELLS)
    return [LATEST - times.astype("i8"), *(cells[name] for name, _ in CELLS)]


ENGINE = server_engine(
    Base,
    name="hbase",
    title="Apache HBase, a store of wide rows (happybase)",
    schemes=("hbase",),
    address=partial(loopback.of_url, port=9_090, secure=()),
    start=start,
    program=PROGRAM,
    settings=set_option.setting("settings", OURS),
    ports={"series": PortSpec("dyno.engines.hbase:Series")},
    tiers=TIERS,
    installation=Installation(modules=("happybase",), requires=("happybase>=1.3",)),
    options=(
        Setting("nodes", integer(1, MOST_NODES), 1, "region servers of Dyno's own, which share their files"),
        Setting("heap_mib", integer(0), 0, "memory of Java's for each node, in MiB; 0: 1024, or 512 of several"),
        Setting("compression", choice("NONE", "GZ"), "NONE", "of its files"),
    ),
    start_seconds=lambda options: 0.0 if options[URL] else NODE_SECONDS * (1 + int(str(options["nodes"]))),
)
