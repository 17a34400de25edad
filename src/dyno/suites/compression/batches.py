"""Records in batches over an ordered key-value store. Every engine is measured through this layer.

A batch of consecutive records is one entry. Its key is the key of its last record, so that a seek for any record's
key finds the batch that would hold the record. Its value is compressed by the packer: the JSON of a single record, or
a directory and the JSON of several. The directory has the number of records, their keys, and the offsets of the
records and of the end, so that one record can be extracted without decoding the others.
"""

import json
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise

from dyno.contracts.ordered_kv import KVReader, OrderedKV
from dyno.suites.compression.dataset import KEY_BYTES, Record, encode
from dyno.suites.compression.packers import Packer

Batch = Sequence[tuple[bytes, Record]]
"""Pairs of key and record, in key order."""

FIRST = bytes(KEY_BYTES)
"""The smallest key."""
_COUNT, _RANGE = struct.Struct(">I"), struct.Struct(">II")
_OFFSET_BYTES = 4
_decode = json.JSONDecoder().decode


def body(keys: Sequence[bytes], texts: Sequence[bytes], size: int) -> bytes:
    """Returns an uncompressed batch, in the format for batches of `size` records."""
    if size == 1:
        return texts[0]
    start = _COUNT.size + len(keys) * KEY_BYTES + (len(texts) + 1) * _OFFSET_BYTES
    offsets = list(accumulate(map(len, texts), initial=start))
    return b"".join([_COUNT.pack(len(keys)), *keys, struct.pack(f">{len(offsets)}I", *offsets), *texts])


def _record(text: bytes) -> Record:
    record: Record = _decode(text.decode("ascii"))
    return record


def _pick(content: bytes, key: bytes) -> Record | None:
    """Returns the record with that key from a batch, or None."""
    (count,) = _COUNT.unpack_from(content)
    end = _COUNT.size + count * KEY_BYTES
    numbers = struct.unpack_from(f">{count}Q", content, _COUNT.size)
    number = int.from_bytes(key, "big")
    at = bisect_left(numbers, number)
    if at == count or numbers[at] != number:
        return None
    first, last = _RANGE.unpack_from(content, end + at * _OFFSET_BYTES)
    return _record(content[first:last])


def _all(content: bytes) -> Iterator[Record]:
    """Yields every record of a batch."""
    (count,) = _COUNT.unpack_from(content)
    offsets = struct.unpack_from(f">{count + 1}I", content, _COUNT.size + count * KEY_BYTES)
    return (_record(content[first:last]) for first, last in pairwise(offsets))


class BatchReader:
    """Reads records in one read transaction."""

    def __init__(self, kv: KVReader, packer: Packer, size: int) -> None:
        self._first, self._seek, self._decompress = kv.first, kv.seek, packer.decompress
        self.get, self.iterate = (self._get_single, self._each) if size == 1 else (self._get, self._every)

    def _get(self, key: bytes) -> Record | None:
        entry = self._first(key)
        return None if entry is None else _pick(self._decompress(entry[1]), key)

    def _get_single(self, key: bytes) -> Record | None:
        entry = self._first(key)
        return None if entry is None or entry[0] != key else _record(self._decompress(entry[1]))

    def _every(self, start: bytes) -> list[Record]:
        """Returns all records of the batches from key `start` on, in key order."""
        decompress = self._decompress
        return [record for _, value in self._seek(start) for record in _all(decompress(value))]

    def _each(self, start: bytes) -> list[Record]:
        decompress = self._decompress
        return [_record(decompress(value)) for _, value in self._seek(start)]


class Batches:
    """Store of batches over one client's `ordered-kv` port."""

    def __init__(self, kv: OrderedKV, packer: Packer, size: int) -> None:
        self._kv, self._packer, self._size = kv, packer, size

    @contextmanager
    def reading(self) -> Iterator[BatchReader]:
        """Opens a read transaction for many reads."""
        with self._kv.reading() as reader:
            yield BatchReader(reader, self._packer, self._size)

    @contextmanager
    def entries(self) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """Yields the stored entries without decompressing them."""
        with self._kv.reading() as reader:
            yield reader.seek(FIRST)

    @contextmanager
    def writing(self) -> Iterator[Callable[[Batch], object]]:
        """Opens a write transaction. Yields a function that encodes, compresses and stores one batch."""
        compress, size = self._packer.compress, self._size
        with self._kv.writing() as writer:
            put = writer.put

            def store(batch: Batch) -> object:
                keys = [key for key, _ in batch]
                return put(keys[-1], compress(body(keys, [encode(record) for _, record in batch], size)))

            yield store

    def close(self) -> None:
        self._kv.close()
