"""Servers of Apache Cassandra: one node, or several on loopback addresses of this machine. Each node has a directory
for its data.

A node reads its settings from a file. Settings that this module doesn't set have their defaults. Java gets the flags
of Cassandra's own scripts. Sources: Apache Software Foundation, Cassandra 5.0 documentation, "cassandra.yaml" and
`conf/jvm17-server.options`.
"""

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.contracts.programs import Jars, Program
from dyno.servers import loopback
from dyno.servers.cluster import Cluster
from dyno.servers.loopback import Address
from dyno.servers.process import Process, directory
from dyno.servers.program_option import JavaProgram

PROGRAM = JavaProgram(
    "Cassandra",
    Program(
        "cassandra",
        "5.0.9",
        Jars(
            ("org.apache.cassandra:cassandra-all:5.0.9",),
            sha256="1a9f2968d1b7c3e85249cb365983ec626aff3d07186da41cd211174ffe3a6328",
        ),
    ),
    "dyno install cassandra",
)
DAEMON = "org.apache.cassandra.service.CassandraDaemon"
READY_SECONDS = 300.0
"""Timeout of a start in seconds. A start takes about 15 s on an idle machine and longer on a slow or traced one."""
NODE_SECONDS = 40.0
"""Seconds that one node may take to start on two busy cores."""
ROLE_SECONDS = 60.0
FIRST_ROLE = "cassandra"
"""Name and password of the role that a new server has."""
SETTINGS: Mapping[str, str] = {
    "num_tokens": "16",
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    # Require authentication and authorization.
    "authenticator": "PasswordAuthenticator",
    "authorizer": "CassandraAuthorizer",
    "role_manager": "CassandraRoleManager",
    # Don't keep a copy of a dropped table.
    "auto_snapshot": "false",
    # The defaults are 2 to 10 s, after which a request fails; a slow machine may need more.
    "write_request_timeout": "60s",
    "read_request_timeout": "60s",
    "range_request_timeout": "60s",
    "request_timeout": "60s",
    # By default the server warns of batches over 5 KiB and refuses those over 50 KiB, to prevent batches of many
    # partitions. Each of Dyno's batches is within one partition.
    "batch_size_warn_threshold": "1024KiB",
    "batch_size_fail_threshold": "4096KiB",
}
OURS = (
    *("cluster_name", "seed_provider", "listen_address", "rpc_address", "storage_port", "native_transport_port"),
    *("data_file_directories", "commitlog_directory", "saved_caches_directory", "hints_directory"),
    *("cdc_raw_directory", "commitlog_sync", "commitlog_sync_period", "authenticator"),
)
"""Settings that users may not change."""
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
    # By default, Java creates a file in /tmp that outlives a kill.
    "-XX:+PerfDisableSharedMem",
    "-Djava.net.preferIPv4Stack=true",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(word for name in _EXPORTED for word in ("--add-exports", f"{name}=ALL-UNNAMED")),
    *(word for name in _OPENED for word in ("--add-opens", f"{name}=ALL-UNNAMED")),
    "-Dcassandra-foreground=yes",
    # All nodes are on this machine, so there is no need to wait for gossip.
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=2000",
    "-Dcassandra.superuser_setup_delay_ms=0",
)
_LOGGING = """<configuration><appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%-5level %date{ISO8601} %F:%L - %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="OUT"/></root></configuration>
"""


class Cassandra(Cluster[Process]):
    """A cluster of Cassandra nodes. `settings` go into cassandra.yaml; `heap_mib` is the Java heap of each node."""

    def __init__(self, home: Path, settings: Mapping[str, str], nodes: int, heap_mib: int) -> None:
        jars, java = PROGRAM.paths()
        self._home = home.absolute()
        self.addresses, (self._storage_port,) = loopback.cluster(home, nodes, ports=1)
        self.settings = {**SETTINGS, **settings}
        self._words = [java, f"-Xms{heap_mib}M", f"-Xmx{heap_mib}M", *JAVA]
        self._words += [f"-Dcassandra.system_auth.default_rf={nodes}"]
        self._words += [f"-javaagent:{agent}" for agent in jars.glob("jamm-*.jar")]
        processes = []
        for number, address in enumerate(self.addresses):
            node = self._node_home(number)
            properties = {
                "java.io.tmpdir": node / "tmp",
                "cassandra.config": f"file://{node}/conf/cassandra.yaml",
                "cassandra.storagedir": node,
                "cassandra.logdir": node / "log",
                "logback.configurationFile": f"file://{node}/conf/logback.xml",
            }
            words = [*self._words, *(f"-D{name}={value}" for name, value in properties.items())]
            words += ["-cp", f"{node}/conf:{jars}/*", DAEMON]
            processes.append(Process(words, node, partial(loopback.listens, address), timeout=READY_SECONDS))
        super().__init__(processes)

    @property
    def address(self) -> Address:
        """The address of the first node."""
        return self.addresses[0]

    def data(self) -> Iterable[Path]:
        """Returns the directory of tables of each node."""
        return [self._node_home(number) / "data" for number in range(len(self.nodes))]

    def _node_home(self, number: int) -> Path:
        return self._home / f"node-{number + 1}"

    def start(self) -> None:
        directory(self._home)
        for number in range(len(self.nodes)):
            self._write_configuration(number)
        super().start()
        if not (role_exists := self._home / "admitted").exists():
            self._create_role()
            role_exists.touch()

    def restore(self, number: int) -> None:
        self._write_configuration(number)
        super().restore(number)

    def _write_configuration(self, number: int) -> None:
        home, address = self._node_home(number), self.addresses[number]
        # Remove libraries that a killed server unpacked.
        shutil.rmtree(home / "tmp", ignore_errors=True)
        for part in ("tmp", "conf", "log"):
            (home / part).mkdir(parents=True, exist_ok=True)
        (home / "conf" / "logback.xml").write_text(_LOGGING)
        settings = {
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
        (home / "conf" / "cassandra.yaml").write_text("".join(f"{n}: {v}\n" for n, v in settings.items()))

    def _create_role(self) -> None:
        """Creates the only role with Dyno's password, and drops the well-known default role."""
        first = Address(self.address.host, self.address.port, FIRST_ROLE, FIRST_ROLE)
        # Retry, because the server creates its first role in the background.
        deadline = time.monotonic() + ROLE_SECONDS
        while True:
            try:
                with closing(Session([first])) as session:
                    rights = f"WITH PASSWORD = '{self.address.password}' AND SUPERUSER = true AND LOGIN = true"
                    session.execute(f"CREATE ROLE IF NOT EXISTS {self.address.user} {rights}")
                break
            except Refused:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        with closing(Session(self.addresses)) as session:
            session.execute(f"DROP ROLE IF EXISTS {FIRST_ROLE}")


class Session:
    """A driver session with the nodes at these addresses, which returns rows as tuples. Raises Refused if no node
    answers."""

    def __init__(self, addresses: Sequence[Address], consistency: str = "QUORUM") -> None:
        from cassandra import AuthenticationFailed, ConsistencyLevel, DriverException
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
        from cassandra.policies import RoundRobinPolicy, TokenAwarePolicy
        from cassandra.query import tuple_factory

        first = addresses[0]
        profile = ExecutionProfile(
            load_balancing_policy=TokenAwarePolicy(RoundRobinPolicy()),
            row_factory=tuple_factory,
            consistency_level=ConsistencyLevel.name_to_value[consistency],
            request_timeout=120,
        )
        self.cluster = Cluster(
            [each.host for each in addresses],
            port=first.port,
            auth_provider=PlainTextAuthProvider(first.user, first.password) if first.user else None,
            protocol_version=5,
            connect_timeout=20,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        )
        try:
            self.execute = self.cluster.connect().execute
        except (NoHostAvailable, DriverException, AuthenticationFailed) as error:
            with suppress(Exception):
                self.close()
            reason = next(iter(getattr(error, "errors", {}).values()), error)
            raise Refused(f"can't connect to its server: {' '.join(str(reason).split())}") from None

    def close(self) -> None:
        self.cluster.shutdown()
