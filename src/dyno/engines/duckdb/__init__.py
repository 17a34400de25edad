"""DuckDB: a columnar SQL database inside the process, made for analysis rather than for single records."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting, integer
from dyno.engines.duckdb.opener import TIERS, DuckDB
from dyno.suites.arrays.port import MODULES, REQUIRES
from dyno.suites.records.port import COLUMNS
from dyno.suites.series import port as series

THREADS = "worker threads; 0 for DuckDB's default (the number of cores)"

ENGINE = EngineSpec(
    name="duckdb",
    title="DuckDB, a columnar SQL database in the process",
    opener=DuckDB,
    ports={
        "records": PortSpec(
            "dyno.engines.duckdb.records:opened",
            caveats=(COLUMNS,),
            # Of single records a second thread is only told of each statement: docs/engines.md has what that costs.
            options=(Setting("threads", integer(0, 1024), 1, THREADS),),
        ),
        "arrays": PortSpec(
            "dyno.engines.duckdb.arrays:Arrays",
            modules=MODULES,
            requires=REQUIRES,
            clients="one",
            options=(Setting("threads", integer(0, 1024), 0, THREADS),),
        ),
        "series": PortSpec(
            "dyno.engines.duckdb.series:Series",
            modules=series.MODULES,
            requires=series.REQUIRES,
            clients="one",
            options=(Setting("threads", integer(0, 1024), 0, THREADS),),
        ),
        "compute": PortSpec(
            "dyno.engines.duckdb.compute:Compute",
            modules=("pyarrow",),
            requires=("pyarrow>=15",),
            clients="one",
            tiers={},
            options=(Setting("threads", integer(0, 1024), 0, THREADS),),
        ),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    seldom=Maintenance("checkpoint", DuckDB.checkpoint),
    modules=("duckdb",),
    requires=("duckdb>=1.2",),
    options=(
        Setting(
            "memory_limit_mib",
            integer(0),
            0,
            "buffer memory, in MiB; 0 for DuckDB's default (80 % of memory)",
        ),
    ),
    clients="threads",
)
