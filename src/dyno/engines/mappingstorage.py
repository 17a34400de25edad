"""ZODB's MappingStorage: pickles in a dict in memory, so that what is left is what ZODB itself does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.engine import EngineSpec, PortSpec
from dyno.engines._shared import zodb
from dyno.model import Caveat, Tier, Value


class Mapped:
    """The storage lives as long as the database over it."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from ZODB.MappingStorage import MappingStorage

        self.database = zodb.database(MappingStorage())

    def close(self) -> None:
        self.database.close()

    def forget(self) -> None:
        """It has no cache."""

    def version(self) -> str:
        return zodb.versions()

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds pickles in this process: nothing is written or sent anywhere")


ENGINE = EngineSpec(
    name="mappingstorage",
    title="ZODB's MappingStorage, in memory",
    opener=Mapped,
    ports={"objects": PortSpec(zodb.Objects)},
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("ZODB",),
    requires=zodb.REQUIRES,
    clients="threads",
    in_memory=True,
)
