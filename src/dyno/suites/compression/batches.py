"""Seeded records, and batches of them over an ordered key-value store. Every engine is measured through this layer.

The records are items of news feeds with summaries in HTML, the same for every engine and packer. They imitate the
records of acid's benchmark of batch compression (David Wilson, 2013). The sizes of those records, plain and
compressed by each packer, are published, but their text is not. This text has similar compression ratios: words by
Zipf's law from a vocabulary, addresses and names that items of one feed share, and random digits.

A batch of consecutive records is one entry. Its key is the key of its last record, so that a seek for any record's
key finds the batch that would hold the record. Its value is compressed by the packer: the JSON of a single record, or
a directory and the JSON of several. The directory has the number of records, their keys, and the offsets of the
records and of the end, so that one record can be extracted without decoding the others.
"""

import json
import random
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, pairwise

from dyno.suites._shared.ordered_kv import KVReader, OrderedKV
from dyno.suites.compression import Packer

Record = dict[str, object]

KEY_BYTES = 8
# Distance between two keys. The keys between them are absent.
GAP = 1_000_003

FEEDS = 100
VOCABULARY = 6_000
WORDS = 108
"""Number of feeds, number of different words, and mean number of words in a summary."""
# The word of rank r has the weight 1 / (r + SHIFT) ** EXPONENT, by the Zipf-Mandelbrot law.
EXPONENT, SHIFT = 0.85, 2.7
VOWELS, VOWEL_WEIGHTS = "aeiou", (8.1, 12.0, 7.3, 7.7, 2.9)
CONSONANTS = "tnshrdlcmfwygpbvkxqjz"
CONSONANT_WEIGHTS = (9.1, 7, 6.3, 5.9, 6, 4.3, 4, 2.7, 2.6, 2.3, 2.1, 2, 2, 1.8, 1.5, 1.1, 0.7, 0.2, 0.1, 0.1, 0.1)
CLOSED = 0.35
"""Fraction of syllables that end in a consonant."""

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def encode(record: Record) -> bytes:
    """Encodes a record as JSON in ASCII, in which each character is one byte."""
    return _encode(record).encode("ascii")


def key_of(number: int) -> bytes:
    """Returns the key of record `number`. Keys have the same order as numbers."""
    return (number * GAP).to_bytes(KEY_BYTES, "big")


class Dataset:
    """Records in key order. Each record depends only on its number and the seed."""

    def __init__(self, records: int, seed: int) -> None:
        self._seed = seed
        draw = random.Random(f"{seed}:words")
        self._vocabulary = _vocabulary(draw)
        self._weights = list(accumulate((rank + SHIFT) ** -EXPONENT for rank in range(VOCABULARY)))
        self._feeds = [self._feed(draw) for _ in range(FEEDS)]
        self.keys = [key_of(number) for number in range(records)]
        self.records = [self._generate(number) for number in range(records)]

    @cached_property
    def encoded(self) -> list[bytes]:
        return [encode(record) for record in self.records]

    @cached_property
    def plain_bytes(self) -> int:
        """Bytes of all keys and values if each record were an uncompressed entry."""
        return sum(map(len, self.encoded)) + KEY_BYTES * len(self.keys)

    def __len__(self) -> int:
        return len(self.records)

    def _words(self, draw: random.Random, count: int) -> list[str]:
        return draw.choices(self._vocabulary, cum_weights=self._weights, k=count)

    def _feed(self, draw: random.Random) -> tuple[str, str, list[str], list[str]]:
        """Returns host, name, authors and tags of a feed."""
        host = "".join(self._words(draw, 2))[:14] + draw.choice((".com", ".org", ".net", ".co.uk"))
        names = [" ".join(self._words(draw, count)).title() for count in (3, 2, 2, 2, 2)]
        return host, names[0], names[1:], self._words(draw, 12)

    def _generate(self, number: int) -> Record:
        draw = random.Random(f"{self._seed}:{number}")
        host, feed, authors, tags = draw.choice(self._feeds)
        hexadecimal, title = f"{draw.getrandbits(64):016x}", self._words(draw, draw.randint(5, 10))
        month, day = draw.randint(1, 12), draw.randint(1, 28)
        time = f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:{draw.randint(0, 59):02}"
        return {
            "id": key_of(number).hex(),
            "feed": feed,
            "url": f"http://{host}/2013/{month:02}/{'-'.join(title)}.html",
            "title": " ".join(title).capitalize(),
            "author": draw.choice(authors),
            "published": f"2013-{month:02}-{day:02}T{time}Z",
            "tags": draw.sample(tags, 3),
            "summary": self._summary(draw, host, hexadecimal),
            "guid": f"{draw.getrandbits(256):064x}",
        }

    def _summary(self, draw: random.Random, host: str, hexadecimal: str) -> str:
        """Returns a summary: paragraphs, some with a link, and the footer that a feed adds to each item."""
        paragraphs, left = [], int(WORDS * draw.uniform(0.6, 1.4))
        while left > 0:
            count = min(left, draw.randint(20, 45))
            left -= count
            words = self._words(draw, count)
            if draw.random() < 0.5:
                target, path = draw.choice(self._feeds)[0], "-".join(self._words(draw, 3))
                words[count // 2] = f'<a href="http://{target}/{path}">{words[count // 2]}</a>'
            text = " ".join(words)
            paragraphs.append(f"<p>{text[0].upper()}{text[1:]}.</p>")
        links = " ".join(
            f'<a href="http://feeds.{host}/~ff/{hexadecimal}?d={word}">{word}</a>'
            for word in ("mail", "save", "like")
        )
        pixel = f'<img src="http://feeds.{host}/~r/{hexadecimal}" height="1" width="1" alt=""/>'
        return "\n".join(paragraphs) + f'<div class="share">{links}</div>{pixel}'


def _vocabulary(draw: random.Random) -> list[str]:
    """Returns pronounceable words by rank. Frequent words are short."""
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        rank = len(words)
        syllables = 1 + (rank > 40) + (rank > 300 and draw.random() < 0.5) + (rank > 1_000 and draw.random() < 0.3)
        word = ""
        for _ in range(syllables):
            first, last = draw.choices(CONSONANTS, CONSONANT_WEIGHTS, k=2)
            (vowel,) = draw.choices(VOWELS, VOWEL_WEIGHTS)
            word += first + vowel + (last if draw.random() < CLOSED else "")
        words[word] = None
    return list(words)


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


def _unpack_records(content: bytes) -> Iterator[Record]:
    """Yields every record of a batch."""
    (count,) = _COUNT.unpack_from(content)
    offsets = struct.unpack_from(f">{count + 1}I", content, _COUNT.size + count * KEY_BYTES)
    return (_record(content[first:last]) for first, last in pairwise(offsets))


class BatchReader:
    """Reads records in one read transaction."""

    def __init__(self, kv: KVReader, packer: Packer, size: int) -> None:
        self._first = kv.first
        self._seek = kv.seek
        self._decompress = packer.decompress
        if size == 1:
            self.get = self._get_single
            self.iterate = self._read_singles
        else:
            self.get = self._get
            self.iterate = self._read_batches

    def _get(self, key: bytes) -> Record | None:
        entry = self._first(key)
        if entry is None:
            return None
        return _pick(self._decompress(entry[1]), key)

    def _get_single(self, key: bytes) -> Record | None:
        entry = self._first(key)
        if entry is None or entry[0] != key:
            return None
        return _record(self._decompress(entry[1]))

    def _read_batches(self, start: bytes) -> list[Record]:
        """Returns all records of the batches from key `start` on, in key order."""
        decompress = self._decompress
        return [record for _, value in self._seek(start) for record in _unpack_records(decompress(value))]

    def _read_singles(self, start: bytes) -> list[Record]:
        decompress = self._decompress
        return [_record(decompress(value)) for _, value in self._seek(start)]


class Batches:
    """Store of batches over one client's `ordered-kv` port."""

    def __init__(self, kv: OrderedKV, packer: Packer, size: int) -> None:
        self._kv = kv
        self._packer = packer
        self._size = size

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
