"""Records over an ordered key-value store: order-preserving tuple keys, index entries in the same transaction.

Every engine that implements `ordered-kv` is measured through this one layer, so what differs is the engine.
A record's key is b'r' and its tuple. An index entry's key is the index's letter and the tuple of the indexed
value and the record's key, its value is empty: two records may share an indexed value. A lookup by index seeks
the entry, takes the key out of it, and gets the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from dyno.ports.ordered_kv import KVReader, KVWriter, OrderedKV
from dyno.suites.records.encoders import Encoder
from dyno.suites.records.port import INDEXES, EachReader, Key, Reader, Record

RECORD = b"r"
_AFTER_RECORDS = b"s"
_LETTER = {"rev_name": b"n", "rev_location": b"l"}


def pack(*parts: str) -> bytes:
    """Strings as bytes whose order is the order of the tuple: each ends with NUL, a NUL inside is NUL 0xff."""
    return b"".join([part.encode().replace(b"\0", b"\0\xff") + b"\0" for part in parts])


class LayeredReader(Reader):
    """Decoded records out of a key-value reader."""

    def __init__(self, kv: KVReader, encoder: Encoder) -> None:
        self._get, self._seek, self._decode = kv.get, kv.seek, encoder.decode

    def get(self, key: Key) -> Record | None:
        value = self._get(RECORD + pack(*key))
        return None if value is None else self._decode(value)

    def finder(self, index: str) -> Callable[[str], Record | None]:
        letter, seek, get, decode = _LETTER[index], self._seek, self._get, self._decode

        def find(value: str) -> Record | None:
            prefix = letter + pack(value)
            for entry, _ in seek(prefix):
                if not entry.startswith(prefix):
                    return None
                found = get(RECORD + entry[len(prefix) :])
                return None if found is None else decode(found)
            return None

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        seek, decode = self._seek, self._decode

        def scan(key: Key) -> list[Record]:
            found: list[Record] = []
            for entry, value in seek(RECORD + pack(*key)):
                if entry >= _AFTER_RECORDS:
                    break
                found.append(decode(value))
                if len(found) == count:
                    break
            return found

        return scan


class LayeredRecords:
    """The `records` port over any `ordered-kv` engine."""

    def __init__(self, kv: OrderedKV, encoder: Encoder, indexed: bool) -> None:
        self._kv, self._encoder = kv, encoder
        self._indexes = [(_LETTER[name], function) for name, function in INDEXES.items()] if indexed else []

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self._kv.reading() as reader:
            yield LayeredReader(reader, self._encoder)

    def reader(self) -> Reader:
        return EachReader(self.reading)

    def insert(self, records: Iterable[Record]) -> None:
        encode, indexes = self._encoder.encode, self._indexes
        with self._kv.writing() as writer:
            put = writer.put
            for record in records:
                packed = pack(record["name"], record["location"])
                put(RECORD + packed, encode(record))
                for letter, function in indexes:
                    put(letter + pack(function(record)) + packed, b"")

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        olds: list[Record | None] = []
        with self._kv.writing() as writer:
            for record in records:
                packed = pack(record["name"], record["location"])
                value = writer.get(RECORD + packed)
                old = None if value is None else self._encoder.decode(value)
                writer.put(RECORD + packed, self._encoder.encode(record))
                self._reindex(writer, packed, old, record)
                olds.append(old)
        return olds

    def _reindex(self, writer: KVWriter, packed: bytes, old: Record | None, new: Record) -> None:
        for letter, function in self._indexes:
            entry = function(new)
            if old is not None:
                stale = function(old)
                if stale == entry:
                    continue
                writer.delete(letter + pack(stale) + packed)
            writer.put(letter + pack(entry) + packed, b"")

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        found: list[bool] = []
        with self._kv.writing() as writer:
            for key in keys:
                packed = pack(*key)
                value = writer.get(RECORD + packed)
                found.append(value is not None)
                if value is None:
                    continue
                writer.delete(RECORD + packed)
                if self._indexes:
                    old = self._encoder.decode(value)
                    for letter, function in self._indexes:
                        writer.delete(letter + pack(function(old)) + packed)
        return found

    def close(self) -> None:
        self._kv.close()
