"""Apache Cassandra: one node, or several on addresses of this machine, whose data are in directories of their own.

A node's settings are a file: what is said beside them is why. The rest is its default. Java is started as the scripts
that come with it start it. Apache Software Foundation, Cassandra 5.0 documentation, "cassandra.yaml" and
`conf/jvm17-server.options`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from dyno.contracts.model import Refused
from dyno.contracts.programs import Jars, Program
from dyno.servers import loopback
from dyno.servers.cluster import Cluster
from dyno.servers.java import InJava
from dyno.servers.loopback import Address
from dyno.servers.process import Process, directory

PROGRAM = Program(
    "cassandra",
    "5.0.9",
    Jars(
        ("org.apache.cassandra:cassandra-all:5.0.9",),
        sha256="1a9f2968d1b7c3e85249cb365983ec626aff3d07186da41cd211174ffe3a6328",
    ),
)
INSTALL = "dyno install cassandra"
PACKAGES = ("default-jre-headless", "maven")
DAEMON = "org.apache.cassandra.service.CassandraDaemon"
READY_SECONDS = 300.0
"""Some 15 on a machine that is idle, and as many times more as it is slower or traced."""
NODE_SECONDS = 40.0
"""Of one of several nodes that start one after the other, on two cores that have other work."""
ADMIT_SECONDS = 60.0
FIRST_ROLE = "cassandra"
"""The role that it makes when it is new, and the password of that."""
SETTINGS: Mapping[str, str] = {
    "num_tokens": "16",
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    # Only who has a password is let in, and may do what he was allowed to.
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "role_manager": "CassandraRoleManager",
    # A table that is dropped would leave a copy of itself.
    "auto_snapshot": "false",
    # The defaults are 2 to 10 s, after which a request is an error: a machine that is measured may be slower.
    "write_request_timeout": "60s",
    "read_request_timeout": "60s",
    "range_request_timeout": "60s",
    "request_timeout": "60s",
    # Larger batches than 5 KiB are complained of, and such over 50 KiB refused: that is to hinder batches of many
    # partitions, and those here are of one.
    "batch_size_warn_threshold": "1024KiB",
    "batch_size_fail_threshold": "4096KiB",
}
OURS = (
    *("cluster_name", "seed_provider", "listen_address", "rpc_address", "storage_port", "native_transport_port"),
    *("data_file_directories", "commitlog_directory", "saved_caches_directory", "hints_directory"),
    *("cdc_raw_directory", "commitlog_sync", "commitlog_sync_period", "authenticator"),
)
"""What is not for others to change: see `Cassandra`."""
_EXPORTED = (
    *("java.base/jdk.internal.misc", "java.base/java.lang.ref", "java.base/sun.nio.ch"),
    *("java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server"),
    *("java.sql/java.sql", "jdk.unsupported/sun.misc"),
)
_OPENED = (
    *("java.base/java.lang.module", "java.base/jdk.internal.loader", "java.base/jdk.internal.ref"),
    *("java.base/jdk.internal.reflect", "java.base/jdk.internal.math", "java.base/jdk.internal.module"),
    *("java.base/jdk.internal.util.jar", "jdk.management/com.sun.management.internal", "java.base/sun.nio.ch"),
    *("java.base/java.io", "java.base/java.lang.reflect", "java.base/java.lang", "java.base/java.util"),
    "java.base/java.nio",
)
JAVA = (
    "-XX:+UseG1GC",
    "-Xss512k",
    # It would keep a file in /tmp otherwise, which outlives a kill.
    "-XX:+PerfDisableSharedMem",
    "-Djava.net.preferIPv4Stack=true",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(word for name in _EXPORTED for word in ("--add-exports", f"{name}=ALL-UNNAMED")),
    *(word for name in _OPENED for word in ("--add-opens", f"{name}=ALL-UNNAMED")),
    "-Dcassandra-foreground=yes",
    # All nodes are on this machine: there is no need to wait for what others have to say.
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=2000",
    "-Dcassandra.superuser_setup_delay_ms=0",
)
_LOGGING = """<configuration><appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%-5level %date{ISO8601} %F:%L - %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="OUT"/></root></configuration>
"""
SERVER = InJava("Cassandra", PROGRAM, INSTALL)
missing = SERVER.missing


class Cassandra(Cluster[Process]):
    """So many nodes with `heap_mib` of Java's memory each. `settings` are those of cassandra.yaml."""

    def __init__(self, home: Path, settings: Mapping[str, str], nodes: int, heap_mib: int) -> None:
        jars, java = SERVER.found()
        self._home = home.absolute()
        self.addresses, (self._storage_port,) = loopback.cluster(home, nodes, ports=1)
        self.settings = {**SETTINGS, **settings}
        self._words = [java, f"-Xms{heap_mib}M", f"-Xmx{heap_mib}M", *JAVA]
        self._words += [f"-Dcassandra.system_auth.default_rf={nodes}"]
        self._words += [f"-javaagent:{agent}" for agent in jars.glob("jamm-*.jar")]
        super().__init__([self._node(number, address, jars) for number, address in enumerate(self.addresses)])

    @property
    def address(self) -> Address:
        """Of the first."""
        return self.addresses[0]

    def data(self) -> Iterable[Path]:
        """Where the nodes keep their tables."""
        return [self._of(number) / "data" for number in range(len(self.nodes))]

    def _of(self, number: int) -> Path:
        return self._home / f"node-{number + 1}"

    def _node(self, number: int, address: Address, jars: Path) -> Process:
        home = self._of(number)
        own = {
            "java.io.tmpdir": home / "tmp",
            "cassandra.config": f"file://{home}/conf/cassandra.yaml",
            "cassandra.storagedir": home,
            "cassandra.logdir": home / "log",
            "logback.configurationFile": f"file://{home}/conf/logback.xml",
        }
        words = [*self._words, *(f"-D{name}={value}" for name, value in own.items())]
        words += ["-cp", f"{home}/conf:{jars}/*", DAEMON]
        return Process(words, home, lambda: loopback.listens(address), patience=READY_SECONDS)

    def start(self) -> None:
        directory(self._home, None)
        for number in range(len(self.nodes)):
            self._write(number)
        super().start()
        if not (admitted := self._home / "admitted").exists():
            self._admit()
            admitted.touch()

    def restore(self, number: int) -> None:
        self._write(number)
        super().restore(number)

    def _write(self, number: int) -> None:
        home, address = self._of(number), self.addresses[number]
        # What one that was killed unpacked.
        shutil.rmtree(home / "tmp", ignore_errors=True)
        for part in ("tmp", "conf", "log"):
            (home / part).mkdir(parents=True, exist_ok=True)
        (home / "conf" / "logback.xml").write_text(_LOGGING)
        given = {
            **self.settings,
            "cluster_name": "dyno",
            "listen_address": address.host,
            "rpc_address": address.host,
            "storage_port": self._storage_port,
            "native_transport_port": address.port,
            "seed_provider": "[{class_name: org.apache.cassandra.locator.SimpleSeedProvider, "
            f"parameters: [{{seeds: '{self.address.host}:{self._storage_port}'}}]}}]",
            "data_file_directories": f"['{home}/data']",
            **{f"{name}_directory": f"'{home}/{name}'" for name in ("commitlog", "saved_caches", "hints", "cdc_raw")},
        }
        (home / "conf" / "cassandra.yaml").write_text("".join(f"{n}: {v}\n" for n, v in given.items()))

    def _admit(self) -> None:
        """Makes the role that may enter, and takes away the one that everybody knows."""
        first = Address(self.address.host, self.address.port, FIRST_ROLE, FIRST_ROLE)
        # The first role is made in the background.
        deadline = time.monotonic() + ADMIT_SECONDS
        while True:
            try:
                with closing(connected([first])) as session:
                    made = f"WITH PASSWORD = '{self.address.password}' AND SUPERUSER = true AND LOGIN = true"
                    session.execute(f"CREATE ROLE IF NOT EXISTS {self.address.user} {made}")
                break
            except Refused:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        with closing(connected(self.addresses)) as session:
            session.execute(f"DROP ROLE IF EXISTS {FIRST_ROLE}")


class Session:
    """A session of the driver's, and what is closed with it."""

    def __init__(self, cluster: Any) -> None:
        self.cluster, self.session = cluster, cluster.connect()
        self.execute = self.session.execute

    def close(self) -> None:
        self.cluster.shutdown()


def connected(addresses: Iterable[Address], consistency: str = "QUORUM") -> Session:
    """A session with the nodes there, at that consistency; rows are tuples. Raises Refused where there is none."""
    from cassandra import AuthenticationFailed, ConsistencyLevel, DriverException
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
    from cassandra.policies import RoundRobinPolicy, TokenAwarePolicy
    from cassandra.query import tuple_factory

    every = list(addresses)
    at = every[0]
    cluster = Cluster(
        [each.host for each in every],
        port=at.port,
        auth_provider=PlainTextAuthProvider(at.user, at.password) if at.user else None,
        protocol_version=5,
        connect_timeout=20,
        execution_profiles={
            EXEC_PROFILE_DEFAULT: ExecutionProfile(
                load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()),
                row_factory=tuple_factory,
                consistency_level=ConsistencyLevel.name_to_value[consistency],
                request_timeout=120,
            )
        },
    )
    try:
        return Session(cluster)
    except (NoHostAvailable, DriverException, AuthenticationFailed) as error:
        with suppress(Exception):
            cluster.shutdown()
        first = next(iter(getattr(error, "errors", {}).values()), error)
        raise Refused(f"can't connect to its server: {' '.join(str(first).split())}") from None
