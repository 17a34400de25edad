"""The port `records`. Engines of the port `ordered-kv` are measured through the shared record layer.

A record is a dict of three strings: name, location, stub. Its key is (name, location). Two indexes hold each record's
reversed name and reversed location. This module depends on no engine and measures nothing.
"""

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
"""Number of digits at the start of a stub, which count the replacements of the record."""

INDEXES: dict[str, Callable[[Record], str]] = {
    "rev_name": lambda record: record["name"][::-1],
    "rev_location": lambda record: record["location"][::-1],
}


def identity(name: str, location: str) -> str:
    """Returns the key as one string, for engines that look a record up by a single column. NUL separates the two
    parts, so NUL and 0x01 in the name are escaped."""
    if "\0" in name or "\1" in name:
        name = name.replace("\1", "\1\2").replace("\0", "\1\1")
    return f"{name}\0{location}"


class Reader(Protocol):
    """Reads records, in one read transaction if the engine has transactions. Readers inherit the default methods."""

    def get(self, key: Key) -> Record | None:
        """Returns the decoded record, or None if the key is absent."""

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        """Returns the records of these keys in the same order, with None for each absent key. It reads in the way
        that the engine's users request many records at once, by default one after the other."""
        return [self.get(key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        """Returns a function that looks a record up by an index, 'rev_name' or 'rev_location'."""

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        """Returns a function that returns up to `count` records in key order, from a key (inclusive) on."""

    def entries(self, index: str) -> Iterator[bytes] | None:
        """Yields the entries of an index that is stored beside the records, in byte order. Never timed. Each is the
        packed tuple of indexed value, name and location. Returns None if the database maintains the index itself."""
        return None


def entries(reader: Reader, index: str) -> Iterator[bytes] | None:
    """Calls `Reader.entries`. Returns None for a reader without that method, since not all inherit it."""
    method: Callable[[str], Iterator[bytes] | None] | None = getattr(reader, "entries", None)
    if method is None:
        return None
    return method(index)


class Records(Protocol):
    """A collection of records, with both indexes or with neither. Every method that writes is one transaction.
    Engines implement it as a class called with `(engine, indexed)`. Each client has its own instance. At most one
    `reading` transaction is open at a time, and none while the same instance writes."""

    def reading(self) -> AbstractContextManager[Reader]:
        """Opens a read transaction for many reads."""

    def reader(self) -> Reader:
        """Returns a reader with a transaction for each read, made as the engine's users read a single record."""

    def insert(self, records: Iterable[Record]) -> None:
        """Stores records whose keys are known to be new, without reading old ones (blind)."""

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        """Stores records, and reads the old record of each key first (not blind). Returns the old records in order.
        If a key comes twice, the second replacement returns the record of the first one."""

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        """Deletes records and their index entries. Returns whether each record existed."""

    def close(self) -> None:
        """Releases the instance's resources, such as a connection or a cursor."""
