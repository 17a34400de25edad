"""The port `records`. Engines of the port `ordered-kv` take part through the shared record layer.

A record is a dict of three strings: name, location, stub. Its key is (name, location). Two indexes hold each record's
reversed name and reversed location. No engine and no measuring belong here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from dyno.contracts.model import Caveat

# Caveats of engines that implement this port themselves, without the record layer.
COLUMNS = Caveat("columns", "keeps a record in columns of its own: the encoder parameter is not used")
FIELDS = Caveat("columns", "keeps a record in fields of a document: the encoder parameter is not used")
MSGPACK = Caveat("msgpack", "encodes a record by msgpack: the encoder parameter is not used")

PORT = "records"
Record = dict[str, str]
Key = tuple[str, str]
VERSION_DIGITS = 7
"""Digits at the start of a stub: how often the record was replaced."""

INDEXES: dict[str, Callable[[Record], str]] = {
    "rev_name": lambda record: record["name"][::-1],
    "rev_location": lambda record: record["location"][::-1],
}


class Reader(Protocol):
    """Reads inside one read transaction, if the engine has them. Inherit from it for the default methods."""

    def get(self, key: Key) -> Record | None:
        """The decoded record; None if the key is absent."""

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        """The records of these keys in their order, None for each absent key, in the way that the engine's users
        request many at once. By default one after the other."""
        return [self.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        """Returns a callable that looks one record up by an index, 'rev_name' or 'rev_location'."""

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        """Returns a callable that returns up to `count` records in key order, from a key (inclusive) on."""

    def entries(self, index: str) -> Iterator[bytes] | None:
        """The entries of an index that is stored beside the records, in byte order: each the packed tuple of indexed
        value, name and location. None if the database maintains the index itself. Never timed."""
        return None


def entries(reader: Reader, index: str) -> Iterator[bytes] | None:
    """Calls `Reader.entries`; None for a reader without that method, as it need not inherit from `Reader`."""
    method: Callable[[str], Iterator[bytes] | None] | None = getattr(reader, "entries", None)
    return None if method is None else method(index)


class Records(Protocol):
    """A collection of records, with both indexes or with neither. Every method that writes is one transaction.

    Engines implement it as a class called with `(engine, indexed)`; each client has its own instance. At most one
    `reading` transaction is open at a time, and none while the same instance writes.
    """

    def reading(self) -> AbstractContextManager[Reader]:
        """A read transaction for many reads."""

    def reader(self) -> Reader:
        """Reads in a transaction each, in the way that the engine's users do a single one."""

    def insert(self, records: Iterable[Record]) -> None:
        """Stores records whose keys the caller knows to be new, without looking (blind)."""

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        """Stores records, observing each old one first (not blind); returns the old ones in order.

        If a key comes twice, the second replacement returns the first one's record.
        """

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        """Removes records and their index entries; returns whether each existed."""

    def close(self) -> None:
        """Releases the instance's resources (a connection, a cursor)."""
