"""ZODB's DemoStorage: changes in memory over an unchanged base, which is empty here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.engines.zodb import databases


class Demo(databases.InMemory):
    """Changes and base are MappingStorages, the default; clients are threads that share the database."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from ZODB.DemoStorage import DemoStorage
        from ZODB.interfaces import IBlobStorage
        from zope.interface import noLongerProvides

        storage = DemoStorage()
        # It would create a temporary directory for blobs, which outlives a killed trial.
        noLongerProvides(storage, IBlobStorage)
        super().__init__(storage)


ENGINE = EngineSpec(
    name="demostorage",
    title="ZODB's DemoStorage, changes in memory over a base",
    opener=Demo,
    ports={"objects": PortSpec(databases.Objects)},
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("ZODB",),
    requires=databases.REQUIRES,
    clients="threads",
    in_memory=True,
)
