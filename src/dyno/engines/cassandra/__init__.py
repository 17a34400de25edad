"""Apache Cassandra through cassandra-driver: a node or a cluster that Dyno starts, or the user's own.

A node reads its settings from a file. Settings that this module doesn't set have their defaults. Java gets the flags
of Cassandra's own scripts. Sources: Apache Software Foundation, Cassandra 5.0 documentation, "cassandra.yaml" and
`conf/jvm17-server.options`; DataStax, Python Driver documentation.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Unavailable, Value
from dyno.contracts.programs import Jars, Program
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.versions import Built, Versions
from dyno.engines.cassandra.counters import COUNTERS
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, program_option, set_option
from dyno.servers.loopback import Address
from dyno.servers.process import KEEPS, Cluster, Process, directory
from dyno.servers.program_option import JavaProgram
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.servers.user_server import URL

if TYPE_CHECKING:
    import cassandra.cluster

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
)
DAEMON = "org.apache.cassandra.service.CassandraDaemon"
READY_SECONDS = 300.0
"""Timeout of a start in seconds. A start takes about 15 s on an idle machine and longer on a slow or traced one."""
NODE_SECONDS = 40.0
"""Seconds that one node may take to start on two busy cores."""
ROLE_SECONDS = 60.0
FIRST_ROLE = "cassandra"
"""Name and password of the role that a new server has."""
SETTINGS = Path(__file__).with_name("settings.toml")
OURS = (
    *("cluster_name", "seed_provider", "listen_address", "rpc_address", "storage_port", "native_transport_port"),
    *("data_file_directories", "commitlog_directory", "saved_caches_directory", "hints_directory"),
    *("cdc_raw_directory", "commitlog_sync", "commitlog_sync_period", "authenticator"),
)
"""Settings that users may not change."""
JAVA, LOGGING = (Path(__file__).with_name(name) for name in ("java.options", "logback.xml"))


class Cassandra(Cluster[Process]):
    """One node, or several on loopback addresses of this machine, each with its own directory. `settings` go into
    cassandra.yaml; `heap_mib` is the Java heap of each node. `archives`: those of another version."""

    def __init__(
        self, home: Path, settings: Mapping[str, str], nodes: int, heap_mib: int, archives: str = ""
    ) -> None:
        jars, java = PROGRAM.paths(archives)
        self._home = home.absolute()
        self.addresses, (self._storage_port,) = loopback.cluster(home, nodes, ports=1)
        self.address = self.addresses[0]
        self.settings = {**toml(SETTINGS), **settings}
        self._words = [java, f"-Xms{heap_mib}M", f"-Xmx{heap_mib}M", f"@{JAVA}"]
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

    def _write_configuration(self, number: int) -> None:
        home, address = self._node_home(number), self.addresses[number]
        # Remove libraries that a killed server unpacked.
        shutil.rmtree(home / "tmp", ignore_errors=True)
        for part in ("tmp", "conf", "log"):
            (home / part).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(LOGGING, home / "conf" / "logback.xml")
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
    """A driver session with these nodes, which returns rows as tuples. Raises Refused if no node answers."""

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
            raise Unavailable(f"can't connect to its server: {' '.join(str(reason).split())}") from None

    def close(self) -> None:
        self.cluster.shutdown()


SYNC, MOST_NODES = "commitlog_sync", 9
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # The commit log is flushed every 10 s. A killed node loses the writes since its last mark, made every 100 ms.
    Tier.VOLATILE: {SYNC: "periodic"},
    # A write waits until its entry in the commit log has been flushed.
    Tier.POWER: {SYNC: "batch"},
}
FLUSHED = ("batch", "group")
"""Values of commitlog_sync with which a write waits for the flush."""


def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    nodes = int(str(options["nodes"]))
    heap = int(str(options["heap_mib"])) or (1_024 if nodes == 1 else 512)
    if tier is Tier.VOLATILE:
        period = {"commitlog_sync_period": "10000ms"}
    else:
        period = {}
    settings = set_option.combine_settings(TIERS[tier], options, **period)
    server = Cassandra(home, settings, nodes, heap, program_option.get_path(options))
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
        *(SYNC, "num_tokens", "memtable_heap_space", "concurrent_writes"),
        *("commitlog_segment_size", "file_cache_size"),
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
        if self.server.own:
            return int(self.server.copies)
        return int(str(self.options["replication"])) or 3

    def durability(self) -> Mapping[str, str | None]:
        row = self.client.execute(f"SELECT value FROM system_views.settings WHERE name = '{SYNC}'").one()
        return {SYNC: None if row is None else str(row[0])}

    @staticmethod
    def weaker(tier: Tier, settings: Mapping[str, str | None]) -> str | None:
        if tier is Tier.VOLATILE or settings[SYNC] in FLUSHED:
            return None
        return f"{SYNC}={settings[SYNC]}"

    def connect(self) -> cassandra.cluster.Session:
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
        """Returns the files of the store's tables on all nodes, without commit logs."""
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
        if type(error).__name__ == "Unauthorized":
            return " ".join(str(error).split())
        return None

    @classmethod
    def removal(cls, name: str, address: Address) -> str:
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
    versions=Versions((Built(PROGRAM.pinned, earliest="5"),)),
    settings=set_option.setting("settings", OURS),
    refuse=refuse,
    ports={"series": PortSpec("dyno.engines.cassandra.series:Series")},
    tiers=TIERS,
    default_tier=Tier.VOLATILE,
    counters=COUNTERS,
    installation=Installation(modules=("cassandra",), requires=("cassandra-driver>=3.30",)),
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
    start_seconds=lambda options: 0.0 if options[URL] else NODE_SECONDS * int(str(options["nodes"])),
)
