"""The port `ordered-kv`: an ordered key-value store. No engine, no suite and no measuring may be put here.

The suites `records` and `compression` lay their records over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

PORT = "ordered-kv"


class KVReader(Protocol):
    """Reads of an ordered key-value store, inside one read transaction where it has them."""

    def get(self, key: bytes) -> bytes | None: ...

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries in key order, from the first whose key is not smaller than `key`."""


class KVWriter(Protocol):
    """Writes of one transaction. `get` sees what this transaction wrote."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> object: ...

    def delete(self, key: bytes) -> object: ...


class OrderedKV(Protocol):
    """An ordered key-value store: bytes to bytes, keys in the order of their bytes.

    Engines implement it as a class called with `(engine,)`; each client has an instance of its own.
    """

    def reading(self) -> AbstractContextManager[KVReader]: ...

    def writing(self) -> AbstractContextManager[KVWriter]:
        """A transaction: committed at the end of the block, with the tier's durability; nothing if it raises."""

    def close(self) -> None: ...
