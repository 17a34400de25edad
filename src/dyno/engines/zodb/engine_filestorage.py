"""ZODB's FileStorage: one file that grows at its end, opened by one process."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.engines.zodb import databases

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Each commit is flushed (fsync) before it is acknowledged, and no setting changes that.
    Tier.POWER: {"fsync": "each commit"},
}


class File(databases.Database):
    """A FileStorage: a file, its index and a directory of blobs. Clients are threads that share the database."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from ZODB.FileStorage import FileStorage

        self._paths = home / "Data.fs", home / "blobs"
        file, blobs = map(str, self._paths)
        super().__init__(FileStorage(file, blob_dir=blobs))

    def settings(self) -> Mapping[str, Value | None]:
        return {**TIERS[Tier.POWER], "pack_keep_old": True}

    def files(self) -> Iterable[Path]:
        return databases.files(*self._paths)


ENGINE = EngineSpec(
    name="filestorage",
    title="ZODB's FileStorage, a file in the process",
    opener=File,
    ports={"objects": PortSpec(databases.Objects)},
    tiers=TIERS,
    modules=("ZODB",),
    requires=databases.REQUIRES,
    clients="threads",
    seldom=databases.APPENDED,
)
