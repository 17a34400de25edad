"""Apache Cassandra by cassandra-driver: one node or a cluster of Dyno's own, or a user's by its address.

Apache Software Foundation, Cassandra 5.0 documentation; DataStax, Python Driver documentation.
"""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.cassandra.opener import MOST_NODES, TIERS, Cass, missing_right, refuse, removal, remove, serve
from dyno.engines.cassandra.server import NODE_SECONDS, OURS, PACKAGES, PROGRAM, missing
from dyno.servers import set_option, user_server
from dyno.servers.user_server import URL

ENGINE = EngineSpec(
    name="cassandra",
    title="Apache Cassandra, a store of wide rows (cassandra-driver)",
    opener=Cass,
    ports={"series": PortSpec("dyno.engines.cassandra.series:Series")},
    tiers=TIERS,
    default_tier=Tier.VOLATILE,
    modules=("cassandra",),
    requires=("cassandra-driver>=3.30",),
    programs=(PROGRAM,),
    packages=PACKAGES,
    options=(
        user_server.setting("cassandra"),
        Setting("nodes", integer(1, MOST_NODES), 1, "nodes of a cluster of Dyno's own"),
        Setting("replication", integer(0, MOST_NODES), 0, "nodes that keep each sample; 0: all, but 3 at most"),
        Setting(
            "consistency",
            choice("ONE", "TWO", "QUORUM", "ALL"),
            "QUORUM",
            "of the nodes that keep it, those that a write or a read waits for",
        ),
        Setting("heap_mib", integer(0), 0, "memory of Java's for each node, in MiB; 0: 1024, or 512 of several"),
        set_option.setting("settings", OURS),
    ),
    refuse=refuse,
    server=serve,
    gives=Cass.gives,
    remove=remove,
    removal=removal,
    missing_right=missing_right,
    starting=lambda options: 0.0 if options[URL] else NODE_SECONDS * int(str(options["nodes"])),
    needs=lambda options: None if options[URL] else missing(),
    clients="one",
    by_default=False,
)
