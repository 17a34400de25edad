"""DuckDB: a columnar SQL database inside the process, made for analysis rather than for single records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dyno.contracts.model import Caveat, Tier, Value
from dyno.host.versions import version


def _told() -> bool:
    """Whether this DuckDB is told whether to flush: before 2.0 it had no setting for it, and flushed every commit."""
    found = find_spec("duckdb")
    # By the name of the directory that says so: to import what reads it takes longer than this and all like it.
    beside = Path(found.origin).parents[1].glob("duckdb-[0-9]*.dist-info") if found and found.origin else ()
    numbers = [int(path.name.removeprefix("duckdb-").split(".")[0]) for path in beside]
    return not numbers or numbers[0] >= 2


TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"database": ":memory:"},
    # The write-ahead log is handed to the kernel at a commit, and flushed by it when it likes. There is no tier
    # `power`, though a commit can be flushed: a checkpoint writes a block in place, and half of it leaves a file that
    # can't be opened (docs/crash.md).
    Tier.PROCESS: {"database": "file", "fsync_mode": "NONE"} if _told() else {"database": "file"},
}
SHOWN = ("fsync_mode", "threads", "memory_limit", "wal_autocheckpoint")


class DuckDB:
    """One database; threads share it, each through a cursor of its own."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        import duckdb

        self._path = home / "records.duckdb"
        # None: through a port that stores nothing.
        self._tier = TIERS[tier or Tier.VOLATILE]
        self.db: Any = duckdb.connect(":memory:" if tier in (None, Tier.VOLATILE) else str(self._path))
        # Of a port: opened through none of them, it is DuckDB's own default.
        if threads := options.get("threads"):
            self.db.execute(f"SET threads = {threads}")
        if options["memory_limit_mib"]:
            self.db.execute(f"SET memory_limit = '{options['memory_limit_mib']}MiB'")
        if "fsync_mode" in self._tier:
            self.db.execute(f"SET fsync_mode = '{self._tier['fsync_mode']}'")

    def close(self) -> None:
        self.db.close()

    def checkpoint(self) -> None:
        """Of the log, as DuckDB does it by itself after 16 MB."""
        self.db.execute("CHECKPOINT")

    def version(self) -> str:
        return f"DuckDB {version('duckdb')}"

    def settings(self) -> Mapping[str, Value | None]:
        told = dict(self.db.execute("SELECT name, value FROM duckdb_settings()").fetchall())
        return {"database": self._tier["database"], **{name: told.get(name) for name in SHOWN}}

    def files(self) -> Iterable[Path]:
        return self._path.parent.glob(self._path.name + "*")

    def caveats(self) -> Iterable[Caveat]:
        return ()
