"""The records: seeded, the same for every engine, and any of them made again from its number to check an answer.

After the records of acid's benchmark (David Wilson, 2013): `name` a unique pseudo-word of about 10 letters,
`location` the name in upper case, `stub` mostly random characters. A record's version (how often it was
replaced) stands at the start of its stub, so that a stale answer can be told from a wrong one.

Inputs and checks make hundreds of thousands of records in a trial. `stub` is the native one where it was built
(rust/measure/src/stubs.rs), and else `stubbed`, which says what is right: the same text.
"""

from __future__ import annotations

import mmap
from binascii import b2a_base64
from collections.abc import Callable
from functools import cached_property
from hashlib import shake_128

import numpy as np
from numpy.typing import NDArray

from dyno.native import loaded
from dyno.suites.records.port import VERSION_DIGITS, Key, Record

ABSENT = -1

_CONSONANTS = "bcdfghjklmnprstvwxyz"
_SYLLABLES = np.array([c + v for c in _CONSONANTS for v in "aeiou"], dtype="S2")
_ENDINGS = np.array(["", "", "", "n"], dtype="S1")


def stubbed(prefix: bytes, number: int, version: int, chars: int) -> str:
    """The version in its digits, and `chars` characters that SHAKE128 of "prefix number:version" makes, in Base64."""
    noise = shake_128(b"%b%d:%d" % (prefix, number, version)).digest((chars * 3 + 3) // 4)
    return f"{version:0{VERSION_DIGITS}d}{b2a_base64(noise, newline=False)[:chars].decode()}"


_native = loaded()

# One that was built before it had this has the rest alone.
stub: Callable[[bytes, int, int, int], str] = getattr(_native, "stub", stubbed)


def pseudo_words(count: int, seed: int, taken: NDArray[np.bytes_] | None = None) -> NDArray[np.bytes_]:
    """`count` different pronounceable words of 9 to 11 letters (mean 10), in random order, as dtype 'S11'.

    Five syllables of a consonant and a vowel, one in four words without the last vowel, one in four with a final
    consonant: over 10^10 possible words, so that doubles, among them or with those `taken`, are rare and are drawn
    again.
    """
    words = np.empty(0, dtype="S11") if taken is None else taken
    start = len(words)
    rng = np.random.default_rng([seed, 1, start])
    while len(words) < start + count:
        drawn = rng.integers(0, len(_SYLLABLES), size=(start + count - len(words) + 64, 5))
        parts = [_SYLLABLES[drawn[:, column]] for column in range(5)]
        parts[4] = np.where(rng.random(len(drawn)) < 0.25, parts[4].astype("S1"), parts[4])
        parts.append(_ENDINGS[rng.integers(0, len(_ENDINGS), len(drawn))])
        word = parts[0]
        for part in parts[1:]:
            word = np.char.add(word, part)
        # Sorted uniques would come out in key order: the order of insertion must stay random.
        every, first = np.unique(np.concatenate([words, word.astype("S11")]), return_index=True)
        words = every[np.argsort(first)]
    return words[start : start + count]


class Dataset:
    """Names for `records` records and `spare` more to insert later; a record is made from its number."""

    def __init__(self, records: int, spare: int, value_size: int, seed: int) -> None:
        self.records, self.seed = records, seed
        names = pseudo_words(records, seed)
        # Apart, so that the records are the same whether or not there are spare ones.
        self.names = np.concatenate([names, pseudo_words(spare, seed, names)])
        self._value_size, self._random_chars = value_size, value_size - VERSION_DIGITS
        self._prefix, self._name = b"%d:" % seed, self.names.item

    def key(self, number: int) -> Key:
        name = self._name(number).decode()
        return name, name.upper()

    def record(self, number: int, version: int = 0) -> Record:
        """Record `number` after its `version`th replacement."""
        name = self._name(number).decode()
        text = stub(self._prefix, number, version, self._random_chars)
        return {"name": name, "location": name.upper(), "stub": text}

    @cached_property
    def mean_record_bytes(self) -> float:
        """Name, location and stub, by the mean of the names; those to spare are not among them."""
        return 2 * float(np.char.str_len(self.names[: self.records]).mean()) + self._value_size

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Record numbers in key order, spare ones included."""
        return np.argsort(self.names, kind="stable")

    @cached_property
    def in_order(self) -> NDArray[np.bytes_]:
        """All names, sorted."""
        return self.names[self.order]

    @cached_property
    def place(self) -> NDArray[np.intp]:
        """For each record number, its place in key order."""
        place = np.empty_like(self.order)
        place[self.order] = np.arange(len(self.order))
        return place


class Model:
    """What the store must hold: for each record number its version, or ABSENT.

    Shared memory, so that client processes, forked from one worker, see each other's acknowledged writes.
    """

    def __init__(self, size: int) -> None:
        self.versions = np.frombuffer(mmap.mmap(-1, max(4 * size, 4)), dtype=np.int32)[:size]
        self.marks = np.frombuffer(mmap.mmap(-1, max(8 * size, 8)), dtype=np.int64)[:size]
        """The hash of the last answer for each record that was compared whole, with its version; 0 where none was."""
        self.clear()

    def clear(self) -> None:
        self.versions[:] = ABSENT


def following(versions: NDArray[np.int32], dataset: Dataset, number: int, count: int) -> list[int]:
    """The numbers of up to `count` records that are present by `versions`, in key order from `number` on."""
    start, found = int(dataset.place[number]), list[int]()
    while len(found) < count and start < len(dataset.order):
        stretch = dataset.order[start : start + 2 * count]
        found += stretch[versions[stretch] != ABSENT][: count - len(found)].tolist()
        start += len(stretch)
    return found


def zipf_ranks(count: int, draws: int, rng: np.random.Generator, theta: float = 0.99) -> NDArray[np.intp]:
    """`draws` ranks from 0 to count - 1, rank r with a probability in proportion to 1 / (r + 1) ** theta.

    Exact, by inversion of the cumulative sum; theta 0.99 is YCSB's (Cooper et al., 2010).
    """
    weights = np.cumsum(1.0 / np.arange(1, count + 1, dtype=np.float64) ** theta)
    ranks: NDArray[np.intp] = np.searchsorted(weights, rng.random(draws) * weights[-1]).clip(0, count - 1)
    return ranks


def draw(distribution: str, count: int, draws: int, rng: np.random.Generator, seed: int) -> list[int]:
    """`draws` record numbers below `count`: uniform, zipfian (hot records spread over the keys), or latest.

    Which records are hot depends on `seed` alone, so that what is read often is what is written often.
    """
    if distribution == "uniform":
        numbers: list[int] = rng.integers(0, count, draws).tolist()
        return numbers
    ranks = zipf_ranks(count, draws, rng)
    spread = (
        np.arange(count)[::-1] if distribution == "latest" else np.random.default_rng([seed, 3]).permutation(count)
    )
    drawn: list[int] = spread[ranks].tolist()
    return drawn
