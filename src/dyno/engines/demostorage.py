"""ZODB's DemoStorage: what is changed lies in memory over a base that stays as it is, which is empty here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.engine import EngineSpec, PortSpec
from dyno.engines._shared import zodb
from dyno.model import Tier, Value


class Demo(zodb.InMemory):
    """Both are MappingStorages; clients are threads that share the database."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from ZODB.DemoStorage import DemoStorage
        from ZODB.MappingStorage import MappingStorage

        # Where it makes the upper one itself it has blobs too, in a directory of its own beside all temporary files,
        # which would outlive a trial that is killed.
        super().__init__(DemoStorage(base=MappingStorage(), changes=MappingStorage()))


ENGINE = EngineSpec(
    name="demostorage",
    title="ZODB's DemoStorage, changes in memory over a base",
    opener=Demo,
    ports={"objects": PortSpec(zodb.Objects)},
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("ZODB",),
    requires=zodb.REQUIRES,
    clients="threads",
    in_memory=True,
)
