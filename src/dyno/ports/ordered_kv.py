"""The port `ordered-kv`: an ordered key-value store, and its conformance checks. No engine, no suite and no measuring
may be put here.

The suites `records` and `compression` lay their records over it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dyno.answers import difference, same
from dyno.model import Tier, Wrong

PORT = "ordered-kv"


class KVReader(Protocol):
    """Reads of an ordered key-value store, inside one read transaction where it has them."""

    def get(self, key: bytes) -> bytes | None: ...

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries in key order, from the first whose key is not smaller than `key`."""


class KVWriter(Protocol):
    """Writes of one transaction. `get` sees what this transaction wrote."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> object: ...

    def delete(self, key: bytes) -> object: ...


class OrderedKV(Protocol):
    """An ordered key-value store: bytes to bytes, keys in the order of their bytes.

    Engines implement it as a class called with `(engine,)`; each client has an instance of its own.
    """

    def reading(self) -> AbstractContextManager[KVReader]: ...

    def writing(self) -> AbstractContextManager[KVWriter]:
        """A transaction: committed at the end of the block, with the tier's durability; nothing if it raises."""

    def close(self) -> None: ...


# -- the conformance suite: a store is held against a dict that is known to be right ---------------------------

Opened = Callable[[str], AbstractContextManager[OrderedKV]]
Check = Callable[[Opened, Tier | None], None]
_ODD = (b"\x00", b"\x00\xff", b"a", b"a\x00", b"aa", b"ab", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"k" * 200)
"""Keys whose order is that of their bytes, and of nothing else."""


def _expect(got: Any, right: Any, what: str) -> None:
    if not same(got, right):
        raise Wrong(f"{what}: {difference(got, right)}")


def _all(kv: OrderedKV, start: bytes = b"") -> list[tuple[bytes, bytes]]:
    with kv.reading() as reader:
        return list(reader.seek(start))


def absence(opened: Opened, tier: Tier | None) -> None:
    """An empty store has nothing, and neither have the neighbours of what is there."""
    with opened("absence") as kv:
        _expect(_all(kv), [], "everything in an empty store")
        with kv.writing() as writer:
            writer.put(b"mm", b"1")
        with kv.reading() as reader:
            for key in (b"m", b"mmm", b"ml", b"mn", b"mm\x00"):
                _expect(reader.get(key), None, f"get of absent {key!r} beside b'mm'")
        _expect(_all(kv, b"mn"), [], "seek beyond the last")


def order(opened: Opened, tier: Tier | None) -> None:
    """A seek goes on in the order of the keys' bytes, from the first that is not smaller."""
    with opened("order") as kv:
        with kv.writing() as writer:
            for key in _ODD[::-1]:
                writer.put(key, b"v" + key)
        right = [(key, b"v" + key) for key in sorted(_ODD)]
        _expect(_all(kv), right, "everything")
        for at, (key, _) in enumerate(right):
            _expect(_all(kv, key), right[at:], f"seek of {key!r}, which is there")
        _expect(_all(kv, b"a\x01"), [pair for pair in right if pair[0] >= b"a\x01"], "seek between two")


def overwrite(opened: Opened, tier: Tier | None) -> None:
    """The last value put is the one that is there, inside of its transaction too; an empty one is a value."""
    with opened("overwrite") as kv:
        for value in (b"1", b"22", b"", b"\x00" * 5_000):
            with kv.writing() as writer:
                writer.put(b"k", b"before")
                writer.put(b"k", value)
                _expect(writer.get(b"k"), value, "get inside the transaction")
            with kv.reading() as reader:
                _expect(reader.get(b"k"), value, "get after it")
        _expect(len(_all(kv)), 1, "number of entries")


def delete(opened: Opened, tier: Tier | None) -> None:
    """What is deleted is gone, inside of its transaction too, and may come back; the absent may be deleted."""
    with opened("delete") as kv:
        with kv.writing() as writer:
            for key in (b"a", b"b", b"c"):
                writer.put(key, key)
        with kv.writing() as writer:
            writer.delete(b"b")
            writer.delete(b"x")
            _expect(writer.get(b"b"), None, "get of what the transaction deleted")
        _expect(_all(kv), [(b"a", b"a"), (b"c", b"c")], "everything after deleting")
        with kv.writing() as writer:
            writer.put(b"b", b"again")
        _expect(_all(kv, b"b")[0], (b"b", b"again"), "what came back")


def atomicity(opened: Opened, tier: Tier | None) -> None:
    """A transaction that fails leaves nothing of itself."""

    class Planned(Exception):
        pass

    with opened("atomicity") as kv:
        with kv.writing() as writer:
            writer.put(b"old", b"1")
        try:
            with kv.writing() as writer:
                for number in range(500):
                    writer.put(b"new%d" % number, b"2")
                writer.delete(b"old")
                raise Planned
        except Planned:
            pass
        _expect(_all(kv), [(b"old", b"1")], "everything after a failed transaction")


def persistence(opened: Opened, tier: Tier | None) -> None:
    """Unless the tier is volatile, a store that is closed and opened again holds what it held."""
    if tier is Tier.VOLATILE:
        return
    right = [(b"%03d" % number, b"x" * number) for number in range(100)]
    with opened("persistence") as kv, kv.writing() as writer:
        for key, value in right:
            writer.put(key, value)
    with opened("persistence") as kv:
        _expect(_all(kv), right, "everything after opening again")


def model(opened: Opened, tier: Tier | None) -> None:
    """Random transactions over few keys: the store and a dict stay alike."""
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
            right = [(key, truth[key]) for key in sorted(truth) if key >= start]
            _expect(_all(kv, start), right, f"seek after transaction {step}")


CHECKS: dict[str, Check] = {
    check.__name__: check for check in (absence, order, overwrite, delete, atomicity, persistence, model)
}
