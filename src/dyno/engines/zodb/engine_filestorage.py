"""ZODB's FileStorage: one file that grows at its end, opened by one process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.zodb import databases

FILE, BLOBS = "Data.fs", "blobs"
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Each commit is flushed (fsync) before it is acknowledged, and nothing switches that off.
    Tier.POWER: {"fsync": "each commit"},
}


class Filed:
    """One file, its index and a directory of blobs; clients are threads that share the database."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from ZODB.FileStorage import FileStorage

        self._file, self._blobs = home / FILE, home / BLOBS
        self.database = databases.database(FileStorage(str(self._file), blob_dir=str(self._blobs)))

    def close(self) -> None:
        self.database.close()

    def forget(self) -> None:
        """It has no cache but that of the kernel."""

    def version(self) -> str:
        return databases.versions()

    def settings(self) -> Mapping[str, Value | None]:
        return {**TIERS[Tier.POWER], "pack_keep_old": True}

    def files(self) -> Iterable[Path]:
        return databases.files(self._file, self._blobs)

    def caveats(self) -> Iterable[Caveat]:
        return ()


ENGINE = EngineSpec(
    name="filestorage",
    title="ZODB's FileStorage, a file in the process",
    opener=Filed,
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    default_tier=Tier.POWER,
    modules=("ZODB",),
    requires=databases.REQUIRES,
    clients="threads",
    seldom=databases.APPENDED,
)
