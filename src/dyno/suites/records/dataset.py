"""Records, each generated from its number and the seed, and the model of the store's expected contents.

They imitate the records of acid's benchmark (David Wilson, 2013): `name` is a unique pseudo-word of about 10 letters,
`location` the name in upper case, `stub` mostly random characters. A stub starts with the record's version (how often
the record was replaced), so that a stale answer can be told from a wrong one.

`stub` and `answer_hashes` are native if the native module has them (rust/measure/src/stubs.rs,
rust/measure/src/marks.rs), since a trial generates and compares hundreds of thousands of records. `python_stub` and
`python_answer_hashes` are their reference implementations.
"""

import mmap
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import shake_128

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.equality import same
from dyno.contracts.model import Value
from dyno.contracts.native import load_native
from dyno.suites.records import mix_of
from dyno.suites.records.port import VERSION_DIGITS, Key, Record

ABSENT = -1

_CONSONANTS = "bcdfghjklmnprstvwxyz"
_SYLLABLES = np.array([c + v for c in _CONSONANTS for v in "aeiou"], dtype="S2")
_ENDINGS = np.array(["", "", "", "n"], dtype="S1")

_native = load_native()


def python_stub(prefix: bytes, number: int, version: int, chars: int) -> str:
    """Returns the version's digits, then `chars` Base64 characters of SHAKE128 over "prefix number:version"."""
    noise = shake_128(b"%b%d:%d" % (prefix, number, version)).digest((chars * 3 + 3) // 4)
    return f"{version:0{VERSION_DIGITS}d}{b2a_base64(noise, newline=False)[:chars].decode()}"


stub: Callable[[bytes, int, int, int], str] = python_stub if _native is None else _native.stub


def pseudo_words(count: int, seed: int, taken: NDArray[np.bytes_] | None = None) -> NDArray[np.bytes_]:
    """Returns `count` different pronounceable words of 9 to 11 letters (mean 10) in random order, as dtype 'S11'.

    Each has five syllables of a consonant and a vowel. One word in four loses its last vowel, and one in four ends in
    a consonant. There are over 10^10 such words, so duplicates (including words in `taken`) are rare, and are drawn
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
        # Restore the random order, since np.unique sorts.
        unique, first = np.unique(np.concatenate([words, word.astype("S11")]), return_index=True)
        words = unique[np.argsort(first)]
    return words[start : start + count]


class Dataset:
    """Generates records from their numbers: `records` of them, and `spare` more for a mix that inserts."""

    def __init__(self, records: int, spare: int, value_size: int, seed: int) -> None:
        self.records, self.seed = records, seed
        names = pseudo_words(records, seed)
        # Draw spare names separately, so that the other names don't depend on the number of spare ones.
        self.names = np.concatenate([names, pseudo_words(spare, seed, names)])
        self._value_size, self._random_chars = value_size, value_size - VERSION_DIGITS
        self._prefix, self._name = b"%d:" % seed, self.names.item

    def key(self, number: int) -> Key:
        name = self._name(number).decode()
        return name, name.upper()

    def record(self, number: int, version: int = 0) -> Record:
        """Returns record `number` after it was replaced `version` times."""
        name = self._name(number).decode()
        text = stub(self._prefix, number, version, self._random_chars)
        return {"name": name, "location": name.upper(), "stub": text}

    @cached_property
    def mean_record_bytes(self) -> float:
        """Mean number of bytes in name, location and stub of a record, without spare records."""
        return 2 * float(np.char.str_len(self.names[: self.records]).mean()) + self._value_size

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Record numbers in key order, spare records included."""
        return np.argsort(self.names, kind="stable")

    @cached_property
    def in_order(self) -> NDArray[np.bytes_]:
        """All names, sorted."""
        return self.names[self.order]

    @cached_property
    def rank(self) -> NDArray[np.intp]:
        """Position in key order of each record, by record number."""
        rank = np.empty_like(self.order)
        rank[self.order] = np.arange(len(self.order))
        return rank


def following_records(versions: NDArray[np.int32], dataset: Dataset, number: int, count: int) -> list[int]:
    """Returns the numbers of up to `count` records that have a version, in key order from record `number` on."""
    start, numbers = int(dataset.rank[number]), list[int]()
    while len(numbers) < count and start < len(dataset.order):
        stretch = dataset.order[start : start + 2 * count]
        numbers += stretch[versions[stretch] != ABSENT][: count - len(numbers)].tolist()
        start += len(stretch)
    return numbers


def record_strings(answer: object) -> tuple[str, str, str] | None:
    """Returns name, location and stub of a record; None unless the answer is a dict of exactly these three strings.
    It requires exact types, so that hashing and comparing use Python's own methods rather than an engine's."""
    if type(answer) is not dict or len(answer) != 3:
        return None
    one, two, three = answer
    if not (type(one) is type(two) is type(three) is str):
        return None
    name = answer.get("name")
    location = answer.get("location")
    stub = answer.get("stub")
    if type(name) is type(location) is type(stub) is str:
        return (name, location, stub)
    return None


def answer_hash(version: int, answer: object) -> int:
    """Returns a hash of an answer and of its expected version; 0 for an answer that is not shaped like a record.
    Since the hash includes the version, a stale answer that was right earlier doesn't pass."""
    strings = record_strings(answer)
    if strings is None:
        return 0
    return hash((version, strings))


def python_answer_hashes(versions: NDArray[np.int64], answers: Sequence[object]) -> NDArray[np.int64]:
    """Returns `answer_hash` of each answer with its version."""
    pairs = zip(versions.tolist(), answers, strict=True)
    return np.fromiter((answer_hash(version, answer) for version, answer in pairs), np.int64, len(answers))


def _native_answer_hashes(versions: NDArray[np.int64], answers: Sequence[object]) -> NDArray[np.int64]:
    hashes = np.empty(len(answers), dtype=np.int64)
    _native.marks(np.ascontiguousarray(versions), answers if type(answers) is list else list(answers), hashes)
    return hashes


answer_hashes = python_answer_hashes if _native is None else _native_answer_hashes


class Model:
    """Parameters, dataset and expected contents of one trial's store, which all phases and clients share.

    Client processes, which are forked from one worker, share the memory of `versions` and `hashes`, so that they see
    each other's acknowledged writes.
    """

    def __init__(self, params: Mapping[str, Value], clients: int, seed: int, judged: bool = True) -> None:
        records, count = int(params["records"]), params["operations"]
        if count == "all":
            self.operations = records
        else:
            self.operations = int(count)
        self.mix, distribution = mix_of(str(params["mix"])), str(params["distribution"])
        if distribution == "mix":
            self.distribution = self.mix.distribution
        else:
            self.distribution = distribution
        # Extra names for records that a mix inserts. Each client's share is rounded up.
        spare = 0
        if "insert" in self.mix.percent:
            spare = self.operations + clients
        self.dataset = Dataset(records, spare, int(params["value_size"]), seed)
        self.txn = params["txn"]
        self.batch = int(params["batch"])
        self.judged = judged
        size = len(self.dataset.names)
        self.versions = np.frombuffer(mmap.mmap(-1, max(4 * size, 4)), dtype=np.int32)[:size]
        """The version of each record by record number, or ABSENT."""
        self.hashes = np.frombuffer(mmap.mmap(-1, max(8 * size, 8)), dtype=np.int64)[:size]
        """For each record, `answer_hash` of the last answer that was compared as a whole; 0 before the first."""
        self.clear()

    def clear(self) -> None:
        self.versions[:] = ABSENT

    def current(self, number: int) -> Record | None:
        """Returns record `number` as the store must hold it now; None if it must be absent."""
        version = int(self.versions[number])
        if version == ABSENT:
            return None
        return self.dataset.record(number, version)

    def right(self, numbers: Sequence[int], answers: Sequence[object]) -> NDArray[np.bool_]:
        """Returns whether each answer is the record as the store must hold it now, up to the end of the shorter
        sequence. An answer is compared as a whole the first time, and by its hash afterwards: the less a check does
        between slices, the less of the engine's memory it evicts from the processor's caches."""
        at = np.array(numbers[: len(answers)], dtype=np.intp)
        hashes = answer_hashes(self.versions[at].astype(np.int64), answers[: len(at)])
        right: NDArray[np.bool_] = (hashes == self.hashes[at]) & (hashes != 0)
        for index in np.flatnonzero(~right).tolist():
            if same(answers[index], self.current(numbers[index])):
                self.hashes[numbers[index]] = hashes[index]
                right[index] = True
        return right
