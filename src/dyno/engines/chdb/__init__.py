"""chDB: ClickHouse inside the process, with tables of its MergeTree."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, Gap, Maintenance, PortSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting, integer
from dyno.engines.chdb.opener import TIERS, ChDB

ENGINE = EngineSpec(
    name="chdb",
    title="chDB, ClickHouse in the process",
    opener=ChDB,
    ports={
        "arrays": PortSpec(
            "dyno.engines.chdb.arrays:Arrays",
            gaps=(
                Gap("atomicity", "unsupported", "each chunk is an insert of its own, and there are no transactions"),
            ),
        ),
        "series": PortSpec("dyno.engines.chdb.series:Series"),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    modules=("chdb", "pandas", "pyarrow"),
    requires=("chdb>=3", "pandas>=2.0", "pyarrow>=15"),
    options=(Setting("threads", integer(0, 1024), 0, "threads of a query; 0 for ClickHouse's default"),),
    seldom=Maintenance("merge of all parts", ChDB.merge),
)
