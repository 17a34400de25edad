"""Records as bytes, and the port `records` over an ordered key-value store.

Packed keys have the order of their tuples. `pack` is native if the native module has it (rust/measure/src/keys.rs).
`python_pack` is its reference implementation, with the same bytes and the same kinds of errors.

Every engine that implements `ordered-kv` is measured through this layer, so only the engine differs. A record's key
is b'r' and its tuple. An index entry's key is the index's letter, then the tuple of the indexed value and the
record's key. Its value is empty. So two records may share an indexed value. Index entries are written in the same
transaction as their record. A lookup by index seeks the entry, takes the record's key from it and gets the record.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple

import msgspec

from dyno.contracts.native import load_native
from dyno.suites._shared.ordered_kv import Entry, KVReader, OrderedKV
from dyno.suites.records.port import INDEXES, Key, Reader, Record


def python_pack(prefix: bytes, parts: tuple[str, ...]) -> bytes:
    """Returns the prefix, then each string in UTF-8 followed by NUL. A NUL inside a string becomes NUL 0xff. Raises
    UnicodeEncodeError for half a surrogate pair, and TypeError for a part that is not a string."""
    text = "\0".join((*parts, "")).encode()
    if text.count(b"\0") != len(parts):
        text = b"".join([part.encode().replace(b"\0", b"\0\xff") + b"\0" for part in parts])
    return prefix + text


_native = load_native()
NATIVE = _native is not None
pack: Callable[[bytes, tuple[str, ...]], bytes] = python_pack if _native is None else _native.pack


class Encoder(NamedTuple):
    """Encoder of records: `decode(encode(record)) == record` for records of three strings without NUL."""

    encode: Callable[[Record], bytes]
    decode: Callable[[bytes], Record]


def _join(record: Record) -> bytes:
    return f"{record['name']}\0{record['location']}\0{record['stub']}".encode()


def _split_record(value: bytes) -> Record:
    name, location, stub = value.decode().split("\0")
    return {"name": name, "location": location, "stub": stub}


_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

ENCODERS = {
    "msgpack": Encoder(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode),
    "json": Encoder(lambda record: _json(record).encode(), json.loads),
    "raw": Encoder(_join, _split_record),
}


RECORD = b"r"
_AFTER_RECORDS = b"s"
_LETTER = {"rev_name": b"n", "rev_location": b"l"}

Get = Callable[[bytes], "bytes | None"]
Decode = Callable[[bytes], Record]


def _get(get: Get, decode: Decode, key: Key) -> Record | None:
    value = get(pack(RECORD, key))
    if value is None:
        return None
    return decode(value)


def _find(
    first: Callable[[bytes], Entry | None], get: Get, decode: Decode, letter: bytes, indexed: str
) -> Record | None:
    prefix = pack(letter, (indexed,))
    entry = first(prefix)
    if entry is None or not entry[0].startswith(prefix):
        return None
    value = get(RECORD + entry[0][len(prefix) :])
    if value is None:
        return None
    return decode(value)


def _scan(stretch: Callable[[bytes, int], list[Entry]], decode: Decode, count: int, key: Key) -> list[Record]:
    entries = stretch(pack(RECORD, key), count)
    # Drop entries that are not records. In key order they come last.
    while entries and entries[-1][0] >= _AFTER_RECORDS:
        entries.pop()
    return [decode(value) for _, value in entries]


def _entries(kv: KVReader, letter: bytes) -> Iterator[bytes]:
    for key, _ in kv.seek(letter):
        if not key.startswith(letter):
            return
        yield key[len(letter) :]


class LayeredReader:
    """Reads decoded records in one read transaction."""

    def __init__(self, kv: KVReader, encoder: Encoder) -> None:
        self._kv, self._decode = kv, encoder.decode
        # Use a partial, which C calls directly without another Python frame.
        self.get: Callable[[Key], Record | None] = partial(_get, kv.get, encoder.decode)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        return list(map(self.get, keys))

    def finder(self, index: str) -> Callable[[str], Record | None]:
        return partial(_find, self._kv.first, self._kv.get, self._decode, _LETTER[index])

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        return partial(_scan, self._kv.stretch, self._decode, count)

    def entries(self, index: str) -> Iterator[bytes]:
        return _entries(self._kv, _LETTER[index])


class SingleReader:
    """Reads decoded records, each in the way that the engine's users read a single record."""

    def __init__(self, single: Callable[[], AbstractContextManager[KVReader]], encoder: Encoder) -> None:
        self._single, self._decode = single, encoder.decode

    def get(self, key: Key) -> Record | None:
        with self._single() as kv:
            return _get(kv.get, self._decode, key)

    def get_many(self, keys: Sequence[Key]) -> list[Record | None]:
        with self._single() as kv:
            return [_get(kv.get, self._decode, key) for key in keys]

    def finder(self, index: str) -> Callable[[str], Record | None]:
        single = self._single
        decode = self._decode
        letter = _LETTER[index]

        def find(indexed: str) -> Record | None:
            with single() as kv:
                return _find(kv.first, kv.get, decode, letter, indexed)

        return find

    def scanner(self, count: int) -> Callable[[Key], list[Record]]:
        single, decode = self._single, self._decode

        def scan(key: Key) -> list[Record]:
            with single() as kv:
                return _scan(kv.stretch, decode, count, key)

        return scan

    def entries(self, index: str) -> Iterator[bytes]:
        with self._single() as kv:
            yield from _entries(kv, _LETTER[index])


class LayeredRecords:
    """The `records` port over any `ordered-kv` engine."""

    def __init__(self, kv: OrderedKV, encoder: Encoder, indexed: bool) -> None:
        self._kv, self._encoder = kv, encoder
        if indexed:
            self._indexes = [(_LETTER[name], function) for name, function in INDEXES.items()]
        else:
            self._indexes = []

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        with self._kv.reading() as reader:
            yield LayeredReader(reader, self._encoder)

    def reader(self) -> Reader:
        return SingleReader(self._kv.single, self._encoder)

    def insert(self, records: Iterable[Record]) -> None:
        encode, indexes = self._encoder.encode, self._indexes
        with self._kv.writing() as writer:
            put = writer.put
            for record in records:
                name, location = record["name"], record["location"]
                put(pack(RECORD, (name, location)), encode(record))
                for letter, function in indexes:
                    put(pack(letter, (function(record), name, location)), b"")

    def replace(self, records: Iterable[Record]) -> list[Record | None]:
        olds: list[Record | None] = []
        with self._kv.writing() as writer:
            for record in records:
                key = record["name"], record["location"]
                packed = pack(RECORD, key)
                value = writer.get(packed)
                old = None
                if value is not None:
                    old = self._encoder.decode(value)
                writer.put(packed, self._encoder.encode(record))
                for letter, function in self._indexes:
                    indexed, stale = function(record), None if old is None else function(old)
                    if stale == indexed:
                        continue
                    if stale is not None:
                        writer.delete(pack(letter, (stale, *key)))
                    writer.put(pack(letter, (indexed, *key)), b"")
                olds.append(old)
        return olds

    def delete(self, keys: Iterable[Key]) -> list[bool]:
        existed: list[bool] = []
        with self._kv.writing() as writer:
            for key in keys:
                packed = pack(RECORD, key)
                value = writer.get(packed)
                existed.append(value is not None)
                if value is None:
                    continue
                writer.delete(packed)
                if self._indexes:
                    old = self._encoder.decode(value)
                    for letter, function in self._indexes:
                        writer.delete(pack(letter, (function(old), *key)))
        return existed

    def close(self) -> None:
        self._kv.close()
