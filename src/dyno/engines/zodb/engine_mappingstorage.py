"""ZODB's MappingStorage: pickles in a dict in memory, so that the time is that of ZODB itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.engines.zodb import databases


class Dict(databases.InMemory):
    """A database of its own; clients are threads that share it."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from ZODB.MappingStorage import MappingStorage

        super().__init__(MappingStorage())


ENGINE = EngineSpec(
    name="mappingstorage",
    title="ZODB's MappingStorage, in memory",
    opener=Dict,
    ports={"objects": PortSpec(databases.Objects)},
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("ZODB",),
    requires=databases.REQUIRES,
    clients="threads",
    in_memory=True,
)
