"""ZODB's MappingStorage: pickles in a dict in memory. The time that it takes is that of ZODB itself."""

from typing import Any

from dyno.engines.zodb import databases


def storage() -> Any:
    from ZODB.MappingStorage import MappingStorage

    return MappingStorage()


ENGINE = databases.in_memory("mappingstorage", "ZODB's MappingStorage, in memory", storage)
