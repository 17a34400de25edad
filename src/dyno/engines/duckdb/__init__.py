"""DuckDB: a columnar SQL database inside the process, made for analysis rather than for single records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.engine import CrashSpec, Engine, EngineSpec, Maintenance, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.settings import Setting, integer
from dyno.contracts.versions import Versions, Wheel
from dyno.host.installation import version
from dyno.suites.arrays import port as arrays
from dyno.suites.records.port import COLUMNS
from dyno.suites.series import port as series

if TYPE_CHECKING:
    import duckdb


def _has_fsync_mode() -> bool:
    """Returns whether this DuckDB has fsync_mode, as from version 2.0 on. Earlier versions flush every commit."""
    spec = find_spec("duckdb")
    # Read the version from a directory name, because importing importlib.metadata takes longer than all the rest.
    paths = Path(spec.origin).parents[1].glob("duckdb-[0-9]*.dist-info") if spec and spec.origin else ()
    versions = [int(path.name.removeprefix("duckdb-").split(".")[0]) for path in paths]
    return not versions or versions[0] >= 2


TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"database": ":memory:"},
    # A commit writes the log to the kernel, which flushes it at some later time. There is no tier `power`, though
    # commits can be flushed: a checkpoint overwrites a block, and a half-written block leaves a file that can't be
    # opened (docs/reference/crash-findings.md).
    Tier.PROCESS: {"database": "file", "fsync_mode": "NONE"} if _has_fsync_mode() else {"database": "file"},
}
SHOWN = ("fsync_mode", "threads", "memory_limit", "wal_autocheckpoint")


class DuckDB(Engine):
    """A DuckDB database. Each thread has its own cursor."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        import duckdb

        self._path = home / "records.duckdb"
        # `tier` is None for a port that stores nothing.
        self._tier = TIERS[tier or Tier.VOLATILE]
        self.db: duckdb.DuckDBPyConnection = duckdb.connect(
            ":memory:" if tier in (None, Tier.VOLATILE) else str(self._path)
        )
        # `threads` is an option of the ports. Without a port, DuckDB's default applies.
        if threads := options.get("threads"):
            self.db.execute(f"SET threads = {threads}")
        if options["memory_limit_mib"]:
            self.db.execute(f"SET memory_limit = '{options['memory_limit_mib']}MiB'")
        if "fsync_mode" in self._tier:
            self.db.execute(f"SET fsync_mode = '{self._tier['fsync_mode']}'")

    def close(self) -> None:
        self.db.close()

    def version(self) -> str:
        return f"DuckDB {version('duckdb')}"

    def settings(self) -> Mapping[str, Value | None]:
        values = dict(self.db.execute("SELECT name, value FROM duckdb_settings()").fetchall())
        return {"database": self._tier["database"], **{name: values.get(name) for name in SHOWN}}

    def caveats(self) -> Iterable[Caveat]:
        if self._tier is TIERS[Tier.PROCESS] and "fsync_mode" not in self._tier:
            yield Caveat("settings", "has no fsync_mode in this version, and flushes each commit")

    def files(self) -> Iterable[Path]:
        return self._path.parent.glob(self._path.name + "*")


def _threads(default: int) -> tuple[Setting, ...]:
    return (Setting("threads", integer(0, 1024), default, "worker threads; 0 for DuckDB's default, one per core"),)


ENGINE = EngineSpec(
    name="duckdb",
    title="DuckDB, a columnar SQL database in the process",
    opener=DuckDB,
    ports={
        # On single records, a second thread only costs messages. See docs/reference/engines/index.md.
        "records": PortSpec("dyno.engines.duckdb.tables:Records", caveats=(COLUMNS,), options=_threads(1)),
        "arrays": PortSpec(
            "dyno.engines.duckdb.tables:Arrays",
            installation=arrays.INSTALLATION,
            clients="one",
            options=_threads(0),
        ),
        "series": PortSpec(
            "dyno.engines.duckdb.tables:Series",
            installation=series.INSTALLATION,
            clients="one",
            options=_threads(0),
        ),
        "sql": PortSpec(
            "dyno.engines.duckdb.sql:Sql",
            installation=Installation(modules=("pyarrow",), requires=("pyarrow>=15",)),
            options=_threads(0),
        ),
        "compute": PortSpec(
            "dyno.engines.duckdb.compute:compute",
            installation=Installation(modules=("pyarrow",), requires=("pyarrow>=15",)),
            clients="one",
            tiers={},
            options=_threads(0),
        ),
    },
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    # DuckDB does this by itself after 16 MB of log.
    crashes=CrashSpec(Maintenance("checkpoint", lambda engine: engine.db.execute("CHECKPOINT"))),
    installation=Installation(modules=("duckdb",), requires=("duckdb>=1.2",)),
    options=(Setting("memory_limit_mib", integer(0), 0, "buffer memory, in MiB; 0 for DuckDB's default, 80 %"),),
    clients="threads",
    versions=Versions((Wheel("duckdb", earliest="0.9"),)),
)
