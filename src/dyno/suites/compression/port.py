"""What this suite asks of an engine: the port `ordered-kv`, of which it neither deletes nor gets by an exact key.

An engine has one class for the port, whichever suite it takes part in; the suite `records` uses all of it. No engine
and no measuring may be put here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol


class KVReader(Protocol):
    """Reads inside one read transaction, where the engine has them."""

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries in key order, from the first whose key is not smaller than `key`."""


class KVWriter(Protocol):
    """Writes of one transaction."""

    def put(self, key: bytes, value: bytes) -> object: ...


class OrderedKV(Protocol):
    """An ordered key-value store: bytes to bytes, keys in the order of their bytes.

    Engines implement it as a class called with `(engine,)`; each client has an instance of its own.
    """

    def reading(self) -> AbstractContextManager[KVReader]: ...

    def writing(self) -> AbstractContextManager[KVWriter]:
        """A transaction: committed at the end of the block, with the tier's durability; nothing if it raises."""

    def close(self) -> None: ...
