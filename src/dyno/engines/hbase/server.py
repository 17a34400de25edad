"""Servers of Apache HBase: one process with all parts, or ZooKeeper, a master and several region servers. Clients in
other languages than Java connect to a further process, the Thrift gateway. All processes run on this machine, with
files in one directory.

There are no passwords, because HBase authenticates users by Kerberos only. Sources: Apache Software Foundation,
Apache HBase Reference Guide, "Standalone HBase", "Pseudo-Distributed Local Install" and "Thrift API".
"""

import signal
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.model import Refused
from dyno.contracts.programs import Jars, Program
from dyno.servers import loopback
from dyno.servers.cluster import Cluster
from dyno.servers.loopback import Address
from dyno.servers.process import Process, directory
from dyno.servers.program_option import JavaProgram

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
    "dyno install hbase",
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
SETTINGS: Mapping[str, str] = {
    # Use plain files. Hadoop's default writes checksum files beside them and never flushes.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "hbase.wal.provider": "filesystem",
    # Loading classes from the store would use Hadoop's default.
    "hbase.use.dynamic.jars": "false",
    "hbase.master.info.port": "-1",
    "hbase.regionserver.info.port": "-1",
    "hbase.thrift.info.port": "-1",
    "hbase.regionserver.thrift.framed": "false",
    # By default the gateway closes a connection that is idle for a minute. A client that checks answers may be idle
    # for longer.
    "hbase.thrift.server.socket.read.timeout": "86400000",
}
OURS = (
    *("hbase.rootdir", "hbase.tmp.dir", "hbase.cluster.distributed", "hbase.wal.hsync", "fs.file.impl"),
    *("hbase.zookeeper.quorum", "hbase.zookeeper.property.clientPort", "hbase.zookeeper.property.dataDir"),
    *("hbase.master.port", "hbase.regionserver.port", "hbase.master.hostname", "hbase.regionserver.hostname"),
)
"""Settings that users may not change."""
_OPENED = (
    *("jdk.internal.ref", "java.nio", "sun.nio.ch", "java.lang", "java.lang.reflect", "java.util", "java.io"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "java.net", "jdk.internal.util.random"),
    *("sun.security.x509", "sun.security.util"),
)
JAVA = (
    "-Xss512k",
    # By default, Java creates a file in /tmp that outlives a kill.
    "-XX:+PerfDisableSharedMem",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    *(word for name in _OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")),
    *("--add-exports", "java.base/jdk.internal.misc=ALL-UNNAMED"),
    *("--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED"),
)
_LOGGING = """log4j.rootLogger=WARN,OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%p %d %c{1}: %m%n
"""


class HBase(Cluster[Process]):
    """The processes of HBase. `settings` go into hbase-site.xml; `heap_mib` is the Java heap of each region
    server."""

    def __init__(self, home: Path, settings: Mapping[str, str], nodes: int, heap_mib: int) -> None:
        jars, java = PROGRAM.paths()
        self._home = home.absolute()
        (self.address,), (zookeeper, master, *regions) = loopback.cluster(home, 1, ports=2 + nodes)
        self._words = [java, *JAVA, f"-Djava.io.tmpdir={self._home / 'tmp'}", "-cp"]
        self._jars, self._heap = jars, heap_mib
        self._own = dict[Path, Mapping[str, str]]()
        """Settings of a process in addition to those of all processes, by its directory."""
        host, self._distributed = loopback.HOST, nodes > 1
        self.settings = {
            **SETTINGS,
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

    @property
    def root(self) -> Path:
        """The directory of all tables and logs."""
        return self._home / "root"

    def _process(self, role: str, own: Mapping[str, str], port: int, number: int = 0) -> Process:
        home = self._home / (f"{role}-{number}" if number else role)
        self._own[home] = own
        at = Address(loopback.HOST, port)
        started = [f"org.apache.hadoop.hbase.{_CLASSES[role]}", "start"]
        if role == "thrift":
            started += ["-p", str(port), "-b", at.host, "-threadpool"]
        # Processes other than region servers hold hardly any data.
        heap = self._heap if role == "region" or (not self._distributed and role == "master") else 256
        words = [self._words[0], f"-Xmx{heap}M", *self._words[1:], f"{home}/conf:{self._jars}/*", *started]
        ready = partial(_answers, at) if role == "thrift" else partial(loopback.listens, at)
        return Process(words, home, ready, timeout=READY_SECONDS)

    def start(self) -> None:
        from html import escape

        directory(self._home)
        (self._home / "tmp").mkdir(exist_ok=True)
        for home, own in self._own.items():
            (home / "conf").mkdir(parents=True, exist_ok=True)
            (home / "conf" / "log4j.properties").write_text(_LOGGING)
            properties = "".join(
                f"<property><name>{name}</name><value>{escape(value, quote=False)}</value></property>"
                for name, value in {**self.settings, **own}.items()
            )
            (home / "conf" / "hbase-site.xml").write_text(f"<configuration>{properties}</configuration>\n")
        super().start()

    def stop(self) -> None:
        """Stops the gateway, then the region servers, then the others: a region server returns its regions to a
        running master."""
        thrift, *parts = reversed(self.nodes)
        thrift.kill()
        self._all(Process.stop, [part for part in parts if part in self._regions])
        for part in parts:
            part.stop(signal.SIGTERM)

    @property
    def count(self) -> int:
        return len(self._regions)

    def lose(self, number: int) -> None:
        self._regions[number].kill()

    def restore(self, number: int) -> None:
        self._regions[number].start()


def _answers(address: Address) -> bool:
    """Returns whether the gateway answers, for which it needs the master."""
    if not loopback.listens(address):
        return False
    try:
        with closing(connected(address, PROBE_MS)) as connection:
            connection.tables()
    except Refused:
        return False
    return True


def connected(address: Address, timeout_ms: int = TIMEOUT_MS) -> Any:
    """Returns a connection to the gateway after a first successful request. Raises Refused."""
    import happybase
    from thriftpy2.thrift import TException

    try:
        connection = happybase.Connection(address.host, address.port, timeout=timeout_ms)
        connection.tables()
    except (OSError, TException) as error:
        raise Refused(f"can't connect to its server: {' '.join(str(error).split())}") from None
    return connection
