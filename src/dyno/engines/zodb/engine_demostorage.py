"""ZODB's DemoStorage: changes in memory over an unchanged base, which is empty here."""

from typing import Any

from dyno.engines.zodb import databases


def storage() -> Any:
    from ZODB.DemoStorage import DemoStorage
    from ZODB.interfaces import IBlobStorage
    from zope.interface import noLongerProvides

    demo = DemoStorage()
    # By default DemoStorage creates a temporary directory for blobs, which outlives a killed trial.
    noLongerProvides(demo, IBlobStorage)
    return demo


ENGINE = databases.in_memory("demostorage", "ZODB's DemoStorage, changes in memory over a base", storage)
