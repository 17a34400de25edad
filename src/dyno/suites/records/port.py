"""The port of the records suite: `records`. Engines of the port `ordered-kv` get the shared record layer.

A record is a dict of three strings: name, location, stub. Its key is (name, location). Two indexes hold, for
each record, its name reversed and its location reversed. No engine and no measuring may be put here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from dyno.contracts.model import Caveat

COLUMNS = Caveat("columns", "keeps a record in columns of its own: the encoder parameter is not used")
FIELDS = Caveat("columns", "keeps a record in fields of a document: the encoder parameter is not used")
MSGPACK = Caveat("msgpack", "encodes a record by msgpack: the encoder parameter is not used")
"""Of engines that implement this port themselves, in place of the record layer."""

PORT = "records"
Record = dict[str, str]
Key = tuple[str, str]
VERSION_DIGITS = 7
"""At the start of a stub: how often the record was replaced."""

INDEXES: dict[str, Callable[[Record], str]] = {
    "rev_name": lambda record: record["name"][::-1],
    "rev_location": lambda record: record["location"][::-1],
}


class Reader(Protocol):
    """Reads inside one read transaction, where the engine has them. A class that inherits from it has the usual
    answer of the method that has one."""

    def get(self, key: Key) -> Record | None:
        """The record of that key, decoded; None where there is none."""

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        """The records of these keys, in their order, the way the engine's users ask for many at once; None for each
        that is not there. Usually one after the other."""
        return [self.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        """A callable that looks one record up by that index: 'rev_name' or 'rev_location'."""

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        """A callable that returns up to `count` records from a key on (it included), in key order."""

    def entries(self, index: str) -> Iterator[bytes] | None:
        """The entries of an index that is kept beside the records, in the order of their bytes: each the indexed
        value, the name and the location, packed. None where the database keeps the index itself. Never timed."""
        return None


def entries(reader: Reader, index: str) -> Iterator[bytes] | None:
    """`Reader.entries`; None also for a reader that doesn't have it, as it need not inherit from `Reader`."""
    method: Callable[[str], Iterator[bytes] | None] | None = getattr(reader, "entries", None)
    return None if method is None else method(index)


class Records(Protocol):
    """A collection of records, with both indexes or with none. Every method that writes is one transaction.

    Engines implement it as a class called with `(engine, indexed)`; each client has an instance of its own.
    At most one `reading` span is open at a time, and none while the same instance writes.
    """

    def reading(self) -> AbstractContextManager[Reader]:
        """A read transaction that holds many reads."""

    def reader(self) -> Reader:
        """Reads that are a transaction each, the way the engine's users do a single one."""

    def insert(self, records: Iterable[Record]) -> None:
        """Stores records whose keys the caller knows to be new, without looking (blind)."""

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        """Stores records, observing each old one first (not blind); returns the old ones in order.

        A key that comes twice sees, the second time, what the first time stored.
        """

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        """Removes records and their index entries; returns whether each was there."""

    def close(self) -> None:
        """Gives back what this instance holds (a connection, a cursor)."""
