"""Cassandra's server and a keyspace on it: tiers, settings, files and caveats."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Server
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.engines.cassandra.server import Cassandra, connected
from dyno.host import filesystem
from dyno.host.installation import version
from dyno.servers import loopback, namespace, set_option, user_server
from dyno.servers.cluster import KEEPS
from dyno.servers.user_server import URL, UserServer

SYNC = "commitlog_sync"
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # The commit log is flushed each 10 s. Of what it was given since it was last marked, a tenth of a second ago,
    # nothing is found again by a node whose process was killed.
    Tier.VOLATILE: {SYNC: "periodic"},
    # A write waits until its place in the commit log has been flushed.
    Tier.POWER: {SYNC: "batch"},
}
FLUSHED = ("batch", "group")
"""Values of commitlog_sync with which a write waits for the flush."""
PERIODIC = {"commitlog_sync_period": "10000ms"}
SHOWN = (SYNC, "num_tokens", "memtable_heap_space", "concurrent_writes", "commitlog_segment_size", "file_cache_size")
PORT, MOST_NODES = 9_042, 9


def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
    if options[URL]:
        return UserServer(str(options[URL]))
    nodes = int(options["nodes"])
    heap = int(options["heap_mib"]) or (1_024 if nodes == 1 else 512)
    settings = {
        SYNC: str(TIERS[tier][SYNC]),
        **(PERIODIC if tier is Tier.VOLATILE else {}),
        **set_option.given(options),
    }
    server = Cassandra(home, settings, nodes, heap)
    server.copies = int(options["replication"]) or min(nodes, 3)
    server.survives = _survives(str(options["consistency"]), server.copies)
    return server


def _survives(consistency: str, copies: int) -> bool:
    """Whether a write is on two nodes when it is acknowledged, and read from one of these by as many when one of all
    that keep it is gone: of ALL there are too few then."""
    waited = {"ONE": 1, "TWO": 2, "QUORUM": copies // 2 + 1, "ALL": copies}[consistency]
    return 2 <= waited < copies and 2 * waited > copies


def refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    if not options[URL] and int(options["replication"]) > int(options["nodes"]):
        return f"replication={options['replication']} wants as many nodes: say nodes={options['replication']}"
    return set_option.refused(tier, options)


class Cass:
    """One keyspace."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value], server: Any) -> None:
        self.server, self._options = server, options
        self.keyspace = namespace.of(home)
        self.waiting = 0
        """Samples that may be in memory and in the commit log only."""
        self.session = connected(_addresses(server), str(options["consistency"]))
        try:
            if not server.own:
                found = [name for (name,) in self._ask("SELECT keyspace_name FROM system_schema.keyspaces")]
                for name in namespace.abandoned(found):
                    self._ask(f"DROP KEYSPACE IF EXISTS {name}")
                if tier is Tier.POWER and self.gives() is not tier:
                    raise Refused(f"the server has {SYNC}={self._setting(SYNC)}, so that it can't give tier power")
            copies = f"{{'class': 'NetworkTopologyStrategy', 'replication_factor': {self.replication}}}"
            self._ask(f"CREATE KEYSPACE IF NOT EXISTS {self.keyspace} WITH replication = {copies}")
        except BaseException:
            self.close()
            raise

    @property
    def replication(self) -> int:
        return self.server.copies if self.server.own else int(self._options["replication"]) or 3

    def _ask(self, statement: str) -> Any:
        return self.session.execute(statement)

    def _setting(self, name: str) -> str | None:
        found = self._ask(f"SELECT value FROM system_views.settings WHERE name = '{name}'").one()
        return None if found is None else str(found[0])

    def gives(self) -> Tier:
        return Tier.POWER if self._setting(SYNC) in FLUSHED else Tier.VOLATILE

    def connect(self) -> Any:
        """A further session, about this store."""
        return self.session.cluster.connect(self.keyspace)

    def close(self) -> None:
        self.session.close()

    def version(self) -> str:
        ((told,),) = self._ask("SELECT release_version FROM system.local")
        return f"Cassandra {told} (cassandra-driver {version('cassandra-driver')})"

    def settings(self) -> Mapping[str, Value | None]:
        told = dict(self._ask("SELECT name, value FROM system_views.settings"))
        names = dict.fromkeys((*SHOWN, *set_option.to_read(self._options)))
        return {
            **{name: told.get(name) for name in names},
            "nodes": len(self.session.cluster.metadata.all_hosts()),
            "replication": self.replication,
            "consistency": self._options["consistency"],
            "survives_a_node": self.server.survives if self.server.own else None,
            **user_server.transport(self.server, False, "loopback"),
        }

    def files(self) -> Iterable[Path]:
        """Of its tables on all nodes. What is in memory is in their commit logs, and in none of these."""
        if not self.server.own:
            return ()
        return filesystem.files(*(data / self.keyspace for data in self.server.data()))

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("batches", "has no transaction over several variables: a batch of samples is many writes")
        if self._options[set_option.SET]:
            yield set_option.CAVEAT
        if not self.server.own:
            yield from user_server.caveats(False, user_server.declared(self.gives(), {SYNC: self._setting(SYNC)}))
        elif self.server.survives:
            yield KEEPS
        elif self.server.count > 1:
            yield Caveat("node", "may lose what it acknowledged when one of its nodes dies for good, at any tier")


def _addresses(server: Any) -> list[loopback.Address]:
    return list(server.addresses) if server.own else [loopback.of_url(server.url, PORT, ())]


def missing_right(error: Exception) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.missing_right`."""
    return " ".join(str(error).split()) if type(error).__name__ == "Unauthorized" else None


def removal(name: str, options: Mapping[str, Value]) -> str:
    at = loopback.of_url(str(options[URL]), PORT, ())
    return shlex.join(["cqlsh", at.host, str(at.port), "-u", at.user, "-e", f"DROP KEYSPACE {name}"])


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    with closing(connected(_addresses(server))) as session:
        session.execute(f"DROP KEYSPACE IF EXISTS {namespace.of(home)}")
