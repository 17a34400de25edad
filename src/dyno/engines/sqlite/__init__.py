"""SQLite by Python's own sqlite3: a B-tree SQL database inside the process."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting, choice, integer
from dyno.engines.sqlite.compute import Compute, gaps
from dyno.engines.sqlite.opener import TIERS, SQLite, page_size, pragmas, refuse
from dyno.servers import set_option
from dyno.suites.compute.port import DOUBLES
from dyno.suites.records.port import COLUMNS

ENGINE = EngineSpec(
    name="sqlite",
    title="SQLite, a B-tree SQL database in the process (sqlite3)",
    opener=SQLite,
    ports={
        "records": PortSpec("dyno.engines.sqlite.records:Records", caveats=(COLUMNS,)),
        "arrays": PortSpec(
            "dyno.engines.sqlite.arrays:Arrays", modules=("pandas",), requires=("pandas>=2.0",), clients="one"
        ),
        "series": PortSpec("dyno.engines.sqlite.series:Series", clients="one"),
        "compute": PortSpec(Compute, clients="one", tiers={}, gaps=gaps(), caveats=(DOUBLES,)),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    refuse=refuse,
    seldom=Maintenance("checkpoint of the log", SQLite.checkpoint),
    intact=SQLite.intact,
    modules=("sqlite3",),
    options=(
        Setting(
            "journal_mode",
            choice("", "wal", "delete", "truncate", "persist", "memory"),
            "",
            "journal mode; by default the tier's own (wal, or memory for volatile)",
        ),
        Setting("cache_mib", integer(1), 256, "page cache of each connection, in MiB"),
        Setting("page_size", page_size, 4096, "page size, in bytes"),
        Setting("mmap_mib", integer(0), 0, "how much of the file to map, in MiB (SQLite's default: none)"),
        Setting(set_option.SET, pragmas, "", "pragmas, written set.NAME=VALUE"),
    ),
    clients="processes",
)
