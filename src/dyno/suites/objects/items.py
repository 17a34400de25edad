"""The persistent classes whose instances are stored. Imported where ZODB is: in a worker, and never by the parent."""

from __future__ import annotations

from typing import Any

from BTrees.IOBTree import IOBTree
from persistent import Persistent
from persistent.mapping import PersistentMapping

CONTAINERS: dict[str, Any] = {"mapping": PersistentMapping, "btree": IOBTree}
"""By the names of the parameter `container`. Their keys are the numbers of objects in the container, from 0 up."""
Branch = IOBTree
"""What holds containers, by number."""


class Item(Persistent):  # type: ignore[misc]
    """An object that is measured: one attribute, of bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content


class Count(Persistent):  # type: ignore[misc]
    """An object that several clients change: two that do so at the same time conflict, and nothing resolves it."""

    def __init__(self) -> None:
        self.count = 0
