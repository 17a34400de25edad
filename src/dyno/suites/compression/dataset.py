"""Seeded records: items of news feeds with summaries in HTML, the same for every engine and packer.

They imitate the records of acid's benchmark of batch compression (David Wilson, 2013). The sizes of those records,
plain and compressed by each packer, are published, but their text is not. This text has similar compression ratios:
words by Zipf's law from a vocabulary, addresses and names that items of one feed share, and random digits.
"""

import json
import random
from functools import cached_property
from itertools import accumulate

Record = dict[str, object]

KEY_BYTES = 8
# Distance between two keys. The keys between them are absent.
GAP = 1_000_003

FEEDS, VOCABULARY, WORDS = 100, 6_000, 108
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


class Dataset:
    """Records in key order. Each record depends only on its number and the seed."""

    def __init__(self, records: int, seed: int) -> None:
        generator = _RecordGenerator(seed)
        self.keys = [key_of(number) for number in range(records)]
        self.records = [generator.record(number) for number in range(records)]

    @cached_property
    def encoded(self) -> list[bytes]:
        return [encode(record) for record in self.records]

    @cached_property
    def plain_bytes(self) -> int:
        """Bytes of all keys and values if each record were an uncompressed entry."""
        return sum(map(len, self.encoded)) + KEY_BYTES * len(self.keys)

    def __len__(self) -> int:
        return len(self.records)


def key_of(number: int) -> bytes:
    """Returns the key of record `number`. Keys have the same order as numbers."""
    return (number * GAP).to_bytes(KEY_BYTES, "big")


class _RecordGenerator:
    """Generates the records of one seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        draw = random.Random(f"{seed}:words")
        self._vocabulary = _vocabulary(draw)
        self._weights = list(accumulate((rank + SHIFT) ** -EXPONENT for rank in range(VOCABULARY)))
        self._feeds = [self._feed(draw) for _ in range(FEEDS)]

    def _words(self, draw: random.Random, count: int) -> list[str]:
        return draw.choices(self._vocabulary, cum_weights=self._weights, k=count)

    def _feed(self, draw: random.Random) -> tuple[str, str, list[str], list[str]]:
        """Returns host, name, authors and tags of a feed."""
        host = "".join(self._words(draw, 2))[:14] + draw.choice((".com", ".org", ".net", ".co.uk"))
        names = [" ".join(self._words(draw, count)).title() for count in (3, 2, 2, 2, 2)]
        return host, names[0], names[1:], self._words(draw, 12)

    def record(self, number: int) -> Record:
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
