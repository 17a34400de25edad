"""Apache HBase by happybase, which speaks to its Thrift gateway: one node or several of Dyno's own, or a
user's gateway by its address.

Apache Software Foundation, Apache HBase Reference Guide; happybase, user guide.
"""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.hbase.opener import MOST_NODES, TIERS, Base, removal, remove, serve
from dyno.engines.hbase.server import NODE_SECONDS, OURS, PACKAGES, PROGRAM, missing
from dyno.servers import set_option, user_server
from dyno.servers.user_server import URL

ENGINE = EngineSpec(
    name="hbase",
    title="Apache HBase, a store of wide rows (happybase)",
    opener=Base,
    ports={"series": PortSpec("dyno.engines.hbase.series:Series")},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("happybase",),
    requires=("happybase>=1.3",),
    programs=(PROGRAM,),
    packages=PACKAGES,
    options=(
        user_server.setting("hbase"),
        Setting("nodes", integer(1, MOST_NODES), 1, "region servers of Dyno's own, which share their files"),
        Setting("heap_mib", integer(0), 0, "memory of Java's for each node, in MiB; 0: 1024, or 512 of several"),
        Setting("compression", choice("NONE", "GZ"), "NONE", "of its files"),
        set_option.setting("settings", OURS),
    ),
    refuse=set_option.refused,
    server=serve,
    remove=remove,
    removal=removal,
    starting=lambda options: 0.0 if options[URL] else NODE_SECONDS * (1 + int(str(options["nodes"]))),
    needs=lambda options: None if options[URL] else missing(),
    clients="one",
    by_default=False,
)
