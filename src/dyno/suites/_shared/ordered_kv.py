"""The port `ordered-kv`, an ordered key-value store, and its conformance suite.

The suites `records` and `compression` store their records through it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from typing import Protocol

from dyno.contracts.model import Tier
from dyno.contracts.suite import Opened, by_name

PORT = "ordered-kv"


Entry = tuple[bytes, bytes]
"""A key and its value."""


class KVReader(Protocol):
    """Reads of an ordered key-value store. Subclasses inherit `first` and `stretch`."""

    def get(self, key: bytes) -> bytes | None: ...

    def seek(self, key: bytes) -> Iterator[Entry]:
        """Returns entries in key order, from the first key that is at least `key`. Several seeks may be interleaved
        with each other and with other reads."""

    def first(self, key: bytes) -> Entry | None:
        """Returns the first entry of a seek, or None."""
        return next(self.seek(key), None)

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        """Returns up to `count` entries of a seek."""
        return list(islice(self.seek(key), count))


class KVWriter(Protocol):
    """Writes of one transaction. `get` sees the transaction's own writes."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> object: ...

    def delete(self, key: bytes) -> object: ...


class OrderedKV(Protocol):
    """An ordered key-value store that maps bytes to bytes. Keys are in the order of their bytes. Engines implement it
    as a class called with `(engine,)`; each client has an instance. Subclasses inherit `single` and `close`."""

    def reading(self) -> AbstractContextManager[KVReader]:
        """Opens a reader for many reads of one state, without later commits by others. This instance does not write
        meanwhile, and the reader is invalid afterwards."""

    def single(self) -> AbstractContextManager[KVReader]:
        """Opens a reader of the latest committed state, for one operation with a single read or a few. Engines
        implement it the way their users read."""
        return self.reading()

    def writing(self) -> AbstractContextManager[KVWriter]:
        """Opens a transaction. It is committed at the end of the block with the tier's durability, or discarded if
        the block raises."""

    def close(self) -> None:
        return None


# -- transactions for engines whose batches can't be read back ------------------------------------------------

Pending = Mapping[bytes, "bytes | None"]
"""Writes that wait for the commit: values by key, and None for deletions."""
_UNSEEN = object()


class Overlay:
    """A writer that collects its writes in a dict."""

    def __init__(self, get: Callable[[bytes], bytes | None]) -> None:
        self._get = get
        self.pending: dict[bytes, bytes | None] = {}
        # `put` is the dict's own method, so that it needs no Python frame.
        self.put = self.pending.__setitem__

    def get(self, key: bytes) -> bytes | None:
        value = self.pending.get(key, _UNSEEN)
        return self._get(key) if value is _UNSEEN else value  # type: ignore[return-value]

    def delete(self, key: bytes) -> None:
        self.pending[key] = None


@contextmanager
def overlay(get: Callable[[bytes], bytes | None], commit: Callable[[Pending], None]) -> Iterator[Overlay]:
    """A writer that collects its writes, and passes them to `commit` at the end of the block or discards them if it
    raises."""
    writer = Overlay(get)
    yield writer
    commit(writer.pending)


class Batch(Protocol):
    """Writes of an engine that are committed together."""

    def put(self, key: bytes, value: bytes) -> object: ...

    def delete(self, key: bytes) -> object: ...


def fill(batch: Batch, pending: Pending) -> None:
    """Adds pending writes to an engine's own batch, which has `put` and `delete`."""
    put, delete = batch.put, batch.delete
    for key, value in pending.items():
        if value is None:
            delete(key)
        else:
            put(key, value)


# -- the conformance suite: a store is compared with a dict ---------------------------------------------------

_ODD = (b"\x00", b"\x00\xff", b"a", b"a\x00", b"aa", b"ab", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"k" * 200)
"""Keys that are sorted correctly only if compared as bytes."""


def _expect(got: object, expected: object, what: str) -> None:
    # Imported here because the module imports NumPy, which takes longer than listing an engine.
    from dyno.contracts.equality import expect

    expect(got, expected, what)


def _read_all(kv: OrderedKV, start: bytes = b"") -> list[Entry]:
    """Returns all entries from a key on. Raises Wrong if two ways of reading disagree."""
    entries: list[Entry] | None = None
    for scope in (kv.reading, kv.single):
        with scope() as reader:
            if entries is None:
                entries = list(reader.seek(start))
            _expect(reader.first(start), entries[0] if entries else None, f"first({start!r})")
            for count in {1, 2, len(entries), len(entries) + 1}:
                _expect(reader.stretch(start, count), entries[:count], f"stretch({start!r}, {count})")
            values = [reader.get(key) for key, _ in entries]
            _expect(values, [value for _, value in entries], f"get of each key from {start!r} on")
    return entries or []


def absence(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """An empty store has no entries, and the neighbours of a key are absent."""
    with opened("absence") as kv:
        _expect(_read_all(kv), [], "all entries of an empty store")
        with kv.writing() as writer:
            writer.put(b"mm", b"1")
        with kv.reading() as reader:
            for key in (b"m", b"mmm", b"ml", b"mn", b"mm\x00"):
                _expect(reader.get(key), None, f"get of absent {key!r} beside b'mm'")
        _expect(_read_all(kv, b"mn"), [], "seek beyond the last")


def order(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """A seek returns entries in the order of the keys' bytes, from the first key that is at least the given one."""
    with opened("order") as kv:
        with kv.writing() as writer:
            for key in _ODD[::-1]:
                writer.put(key, b"v" + key)
        expected = [(key, b"v" + key) for key in sorted(_ODD)]
        _expect(_read_all(kv), expected, "all entries")
        for at, (key, _) in enumerate(expected):
            _expect(_read_all(kv, key), expected[at:], f"seek of {key!r}, which exists")
        _expect(_read_all(kv, b"a\x01"), [pair for pair in expected if pair[0] >= b"a\x01"], "seek between two keys")


def overwrite(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """The last put wins, inside its transaction too; an empty value is a value."""
    with opened("overwrite") as kv:
        for value in (b"1", b"22", b"", b"\x00" * 5_000):
            with kv.writing() as writer:
                writer.put(b"k", b"before")
                writer.put(b"k", value)
                _expect(writer.get(b"k"), value, "get inside the transaction")
            with kv.reading() as reader:
                _expect(reader.get(b"k"), value, "get after it")
        _expect(len(_read_all(kv)), 1, "number of entries")


def delete(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """A deleted key is absent, inside its transaction too, and can be put again; deleting an absent key is no
    error."""
    with opened("delete") as kv:
        with kv.writing() as writer:
            for key in (b"a", b"b", b"c"):
                writer.put(key, key)
        with kv.writing() as writer:
            writer.delete(b"b")
            writer.delete(b"x")
            _expect(writer.get(b"b"), None, "get of a key that the transaction deleted")
        _expect(_read_all(kv), [(b"a", b"a"), (b"c", b"c")], "all entries after deleting")
        with kv.writing() as writer:
            writer.put(b"b", b"again")
        _expect(_read_all(kv, b"b")[0], (b"b", b"again"), "a deleted key that was put again")


def atomicity(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """A failed transaction leaves nothing behind."""
    from dyno.contracts.equality import PlannedFailure

    with opened("atomicity") as kv:
        with kv.writing() as writer:
            writer.put(b"old", b"1")
        with suppress(PlannedFailure), kv.writing() as writer:
            for number in range(500):
                writer.put(b"new%d" % number, b"2")
            writer.delete(b"old")
            raise PlannedFailure
        _expect(_read_all(kv), [(b"old", b"1")], "all entries after a failed transaction")


def persistence(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """A store that is closed and opened again has all its entries, unless the tier is volatile."""
    if tier is Tier.VOLATILE:
        return
    expected = [(b"%03d" % number, b"x" * number) for number in range(100)]
    with opened("persistence") as kv, kv.writing() as writer:
        for key, value in expected:
            writer.put(key, value)
    with opened("persistence") as kv:
        _expect(_read_all(kv), expected, "all entries after opening again")


def model(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """After random transactions on a few keys the store equals a dict."""
    rng, truth = random.Random(1), dict[bytes, bytes]()
    keys = [b"%02d" % number for number in range(30)]
    with opened("model") as kv:
        for step in range(200):
            with kv.writing() as writer:
                for key in rng.sample(keys, rng.choice((1, 2, 5))):
                    _expect(writer.get(key), truth.get(key), f"get in transaction {step}")
                    if rng.random() < 0.3:
                        writer.delete(key)
                        truth.pop(key, None)
                    else:
                        truth[key] = b"%d" % step
                        writer.put(key, truth[key])
            start = rng.choice(keys)
            expected = [(key, truth[key]) for key in sorted(truth) if key >= start]
            _expect(_read_all(kv, start), expected, f"seek after transaction {step}")


def interleaved(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """Seeks and other reads that are interleaved don't affect each other."""
    expected = [(b"%02d" % number, b"v%d" % number) for number in range(20)]
    with opened("interleaved") as kv:
        with kv.writing() as writer:
            for key, value in expected:
                writer.put(key, value)
        with kv.reading() as reader:
            one, other = reader.seek(b"00"), reader.seek(b"10")
            for at in range(10):
                _expect(next(one, None), expected[at], "the first of two seeks")
                _expect(reader.first(b"05"), expected[5], "first, during two seeks")
                _expect(next(reader.seek(b"13"), None), expected[13], "a third seek, which is abandoned")
                _expect(next(other, None), expected[10 + at], "the second of two seeks")
                _expect(reader.stretch(b"02", 3), expected[2:5], "stretch, during two seeks")
                _expect(reader.get(b"19"), b"v19", "get, during two seeks")
            _expect(list(one), expected[10:], "the rest of the first of two seeks")
            _expect(list(other), [], "the rest of the second of two seeks")


def latest(opened: Opened[OrderedKV], tier: Tier | None) -> None:
    """A commit is visible in the next single read and in the next scope of many reads."""
    with opened("latest") as kv:
        for step in range(4):
            entry = (b"k%d" % (9 - step), b"%d" % step)
            with kv.writing() as writer:
                writer.put(*entry)
                writer.put(b"same", b"%d" % step)
            for scope, name in ((kv.reading, "many reads"), (kv.single, "a single read")):
                with scope() as reader:
                    _expect(reader.first(b"k"), entry, f"first after a commit, in {name}")
                    _expect(reader.get(b"same"), b"%d" % step, f"get after a commit, in {name}")
                    _expect(next(reader.seek(b"k"), None), entry, f"seek after a commit, in {name}")
                    _expect(reader.stretch(b"k", 1), [entry], f"stretch after a commit, in {name}")


CHECKS = by_name(absence, order, overwrite, delete, atomicity, persistence, model, interleaved, latest)


def isolation(one: OrderedKV, other: OrderedKV) -> None:
    """Many reads see one state, whatever another client commits meanwhile; a single read sees the latest."""
    before, after = [(b"a", b"1"), (b"c", b"1")], [(b"a", b"2"), (b"b", b"2")]
    with other.writing() as writer:
        for entry in before:
            writer.put(*entry)
    with one.reading() as reader:
        _expect(reader.first(b""), before[0], "first")
        entries = reader.seek(b"")
        _expect(next(entries, None), before[0], "the first of a seek")
        with other.writing() as writer:
            writer.put(b"a", b"2")
            writer.put(b"b", b"2")
            writer.delete(b"c")
        _expect(list(entries), before[1:], "the rest of a seek that began before another's commit")
        _expect([reader.get(key) for key in (b"a", b"b", b"c")], [b"1", None, b"1"], "get after another's commit")
        _expect(list(reader.seek(b"")), before, "seek after another's commit")
        _expect(reader.first(b"b"), before[1], "first after another's commit")
        _expect(reader.stretch(b"", 3), before, "stretch after another's commit")
    for scope in (one.single, one.reading):
        with scope() as reader:
            _expect(reader.stretch(b"", 3), after, "another's commit, in reads that begin after it")


TWO_CLIENT_CHECKS: dict[str, Callable[[OrderedKV, OrderedKV], None]] = {"isolation": isolation}
"""Checks with two clients of an empty store, for engines that several clients can share."""
