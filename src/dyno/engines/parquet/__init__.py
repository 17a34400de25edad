"""Parquet by pyarrow: a directory of files, which are never changed."""

from __future__ import annotations

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting, boolean, choice, integer
from dyno.engines.parquet.opener import GAP, TIERS, Parquet
from dyno.suites.arrays.port import CHUNK_ROWS

ENGINE = EngineSpec(
    name="parquet",
    title="Parquet, files of columns that are never changed (pyarrow)",
    opener=Parquet,
    ports={
        "arrays": PortSpec("dyno.engines.parquet.arrays:Arrays", gaps=(GAP,)),
        "series": PortSpec(
            "dyno.engines.parquet.series:Series",
            options=(Setting("merged", integer(2, 10_000), 64, "files of a batch that are merged into one"),),
        ),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    seldom=Maintenance("every commit is a file of its own, and nothing else is ever done"),
    modules=("pyarrow", "pandas"),
    requires=("pyarrow>=15", "pandas>=2.0"),
    options=(
        Setting("group_rows", integer(1, CHUNK_ROWS), CHUNK_ROWS, "rows of a row group"),
        Setting(
            "compression",
            choice("snappy", "zstd", "lz4", "gzip", "none"),
            "snappy",
            "of columns (pyarrow's default: snappy)",
        ),
        Setting("mmap", boolean, False, "whether files are mapped (pyarrow's default: no)"),
    ),
)
