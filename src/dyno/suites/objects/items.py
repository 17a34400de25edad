"""Persistent classes of the stored objects. They need ZODB, so only workers import this module."""

from BTrees.IOBTree import IOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping

CONTAINERS: dict[str, type[PersistentMapping] | type[IOBTree]] = {"mapping": PersistentMapping, "btree": IOBTree}
"""Container classes by value of the parameter `container`. Their keys are the numbers of the objects, from 0 up."""
Branch = IOBTree
"""Class that maps numbers to containers."""


class Item(Persistent):  # type: ignore[misc]
    """A measured object, with one attribute of bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content


class Counter(Persistent):  # type: ignore[misc]
    """An object that several clients change. ZODB can't resolve conflicts between such changes."""

    def __init__(self) -> None:
        self.count = 0
