"""RelStorage: pickles of ZODB in a SQL database, which is SQLite in the process, or a server of Dyno's own."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.relstorage.backends import BACKENDS, DRIVERS, TIERS, needs, refuse, serve
from dyno.engines.relstorage.opener import Relational, remove
from dyno.engines.zodb import databases

ENGINE = EngineSpec(
    name="relstorage",
    title="RelStorage, ZODB in a SQL database",
    opener=Relational,
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    # As its users run it, and as ZODB's other storages are.
    default_tier=Tier.POWER,
    modules=("ZODB", "relstorage"),
    requires=(*databases.REQUIRES, "RelStorage>=4", "psycopg2-binary>=2.9", "PyMySQL>=1.1"),
    options=(
        Setting("backend", choice(*BACKENDS), "sqlite", "the database: in the process, or a server of Dyno's own"),
        Setting("driver", choice("", *DRIVERS), "", "library of the database's; by default the backend's first"),
        Setting("history", choice("keep", "free"), "keep", "whether old states are kept until a pack"),
        Setting("cache", choice("memory", "file", "none"), "memory", "of each client; file: kept when it is closed"),
        Setting("cache_mib", integer(1), 256, "size of that cache, in MiB (RelStorage's default: 10)"),
        databases.SHARING,
        Setting("server_cache_mib", integer(5), 256, "cache of the database: shared buffers, or buffer pool, in MiB"),
    ),
    refuse=refuse,
    server=serve,
    seldom=databases.PACK,
    remove=remove,
    needs=needs,
    clients="processes",
    sharing=databases.sharing,
)
