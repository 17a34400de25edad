"""PostgreSQL by psycopg 3: a server of Dyno's own, or a user's by its address."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.postgresql.oltp import Transactions
from dyno.engines.postgresql.oltp import missing as missing_tools
from dyno.engines.postgresql.opener import CACHE_MIB, TIERS, Postgres, missing_right, refuse, removal, remove, serve
from dyno.engines.postgresql.server import KIND, OURS, missing
from dyno.engines.postgresql.standbys import COMMITS, MOST
from dyno.servers import program_option, set_option, user_server
from dyno.servers.user_server import URL
from dyno.suites.arrays.port import MODULES, REQUIRES
from dyno.suites.records.port import COLUMNS

ENGINE = EngineSpec(
    name="postgresql",
    title="PostgreSQL, a SQL server (psycopg)",
    opener=Postgres,
    ports={
        "records": PortSpec("dyno.engines.postgresql.records:opened", caveats=(COLUMNS,)),
        "arrays": PortSpec(
            "dyno.engines.postgresql.arrays:Arrays", modules=MODULES, requires=REQUIRES, clients="one"
        ),
        "series": PortSpec(
            "dyno.engines.postgresql.series:Series",
            clients="one",
            options=(
                Setting(
                    "index",
                    choice("btree", "brin"),
                    "btree",
                    "of samples: by variable and time, or by ranges of pages",
                ),
                Setting("partition_hours", integer(0, 1_000_000), 0, "hours of data in a partition; 0 for one table"),
            ),
        ),
        "transactions": PortSpec(Transactions, packages=("sysbench",), needs=missing_tools),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("psycopg",),
    requires=("psycopg[binary]>=3.1",),
    packages=("postgresql",),
    options=(
        user_server.setting("postgresql", "postgres"),
        Setting("client", choice("psycopg", "pq"), "psycopg", "pq: single statements by libpq's own calls"),
        Setting("cache_mib", integer(1), CACHE_MIB, "shared buffers of a server of Dyno's own, in MiB"),
        Setting("many", choice("list", "pipeline"), "list", "a batch: one statement, or one each, sent together"),
        set_option.setting("settings", (*TIERS[Tier.POWER], *OURS)),
        KIND.setting,
        Setting("replicas", integer(0, MOST), 0, "standbys of a server of Dyno's own, which stream its log from it"),
        Setting(
            "acknowledged",
            choice(*COMMITS),
            "none",
            "what one standby at least has done with a commit that is acknowledged; flush: synchronous_commit=on",
        ),
    ),
    refuse=refuse,
    server=serve,
    gives=Postgres.gives,
    remove=remove,
    removal=removal,
    missing_right=missing_right,
    upkeep=Postgres.upkeep,
    seldom=Maintenance("checkpoint", Postgres.checkpoint),
    needs=lambda options: None if options[URL] else missing(program_option.given(options)),
    clients="processes",
    by_default=False,
)
