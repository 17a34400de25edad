"""ZODB's MappingStorage: pickles in a dict in memory, so that what is left is what ZODB itself does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.engine import EngineSpec, PortSpec
from dyno.engines._shared import zodb
from dyno.model import Tier, Value


class Mapped(zodb.InMemory):
    """One of its own; clients are threads that share the database."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from ZODB.MappingStorage import MappingStorage

        super().__init__(MappingStorage())


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
