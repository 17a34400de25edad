"""The port `ordered-kv`: an ordered key-value store, and its conformance checks. No engine, no suite and no measuring
may be put here.

The suites `records` and `compression` lay their records over it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Protocol

from dyno.contracts.model import Tier, Wrong

PORT = "ordered-kv"


Entry = tuple[bytes, bytes]
"""A key and its value."""


class KVReader(Protocol):
    """Reads of an ordered key-value store. A class that inherits from it has the usual answer of what has one."""

    def get(self, key: bytes) -> bytes | None: ...

    def seek(self, key: bytes) -> Iterator[Entry]:
        """Entries in key order, from the first whose key is not smaller than `key`. Several may be under way, with
        other reads between."""

    def first(self, key: bytes) -> Entry | None:
        """The first of them; None where there is none."""
        return next(self.seek(key), None)

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        """Up to `count` of them."""
        return list(islice(self.seek(key), count))


class KVWriter(Protocol):
    """Writes of one transaction. `get` sees what this transaction wrote."""

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes) -> object: ...

    def delete(self, key: bytes) -> object: ...


class OrderedKV(Protocol):
    """An ordered key-value store: bytes to bytes, keys in the order of their bytes.

    Engines implement it as a class called with `(engine,)`; each client has an instance of its own. A class that
    inherits from it has the usual answer of what has one.
    """

    def reading(self) -> AbstractContextManager[KVReader]:
        """Many reads of one state: what others commit meanwhile is not in it. This instance writes nothing meanwhile,
        and what it gave to read from is of no use afterwards."""

    def single(self) -> AbstractContextManager[KVReader]:
        """One read, or what belongs to one, the way the engine's users do a single one: of what is committed."""
        return self.reading()

    def writing(self) -> AbstractContextManager[KVWriter]:
        """A transaction: committed at the end of the block, with the tier's durability; nothing if it raises."""

    def close(self) -> None: ...


# -- the conformance suite: a store is held against a dict that is known to be right ---------------------------

Opened = Callable[[str], AbstractContextManager[OrderedKV]]
Check = Callable[[Opened, Tier | None], None]
_ODD = (b"\x00", b"\x00\xff", b"a", b"a\x00", b"aa", b"ab", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"k" * 200)
"""Keys whose order is that of their bytes, and of nothing else."""


def _expect(got: Any, right: Any, what: str) -> None:
    # With NumPy, which takes longer to import than all that is wanted of an engine that is only listed.
    from dyno.contracts.equality import difference, same

    if not same(got, right):
        raise Wrong(f"{what}: {difference(got, right)}")


def _all(kv: OrderedKV, start: bytes = b"") -> list[Entry]:
    """From there on, by each way of reading, which must agree."""
    with kv.reading() as reader:
        found = list(reader.seek(start))
        _agree(reader, start, found)
    with kv.single() as reader:
        _agree(reader, start, found)
    return found


def _agree(reader: KVReader, start: bytes, found: list[Entry]) -> None:
    _expect(reader.first(start), found[0] if found else None, f"the first from {start!r} on")
    for count in {1, 2, len(found), len(found) + 1}:
        _expect(reader.stretch(start, count), found[:count], f"{count} from {start!r} on")
    _expect(
        [reader.get(key) for key, _ in found], [value for _, value in found], f"each from {start!r} on by its key"
    )


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


def interleaved(opened: Opened, tier: Tier | None) -> None:
    """Seeks that are under way at the same time go on as if each were alone, whatever else is read between."""
    right = [(b"%02d" % number, b"v%d" % number) for number in range(20)]
    with opened("interleaved") as kv:
        with kv.writing() as writer:
            for key, value in right:
                writer.put(key, value)
        with kv.reading() as reader:
            one, other = reader.seek(b"00"), reader.seek(b"10")
            for at in range(10):
                _expect(next(one, None), right[at], "the first of two seeks")
                _expect(reader.first(b"05"), right[5], "the first from there on, while two seeks are under way")
                _expect(next(reader.seek(b"13"), None), right[13], "a third seek, which is left at once")
                _expect(next(other, None), right[10 + at], "the second of two seeks")
                _expect(reader.stretch(b"02", 3), right[2:5], "three entries, while two seeks are under way")
                _expect(reader.get(b"19"), b"v19", "get, while two seeks are under way")
            _expect(list(one), right[10:], "what is left of the first of two seeks")
            _expect(list(other), [], "what is left of the second of two seeks")


def latest(opened: Opened, tier: Tier | None) -> None:
    """Whatever was read before, what is committed is in the next read, and in the next scope of many."""
    with opened("latest") as kv:
        for step in range(4):
            entry = (b"k%d" % (9 - step), b"%d" % step)
            with kv.writing() as writer:
                writer.put(*entry)
                writer.put(b"same", b"%d" % step)
            for scope, name in ((kv.reading, "many reads"), (kv.single, "a single one")):
                with scope() as reader:
                    _expect(reader.first(b"k"), entry, f"the first after a commit, in {name}")
                    _expect(reader.get(b"same"), b"%d" % step, f"get after a commit, in {name}")
                    _expect(next(reader.seek(b"k"), None), entry, f"a seek after a commit, in {name}")
                    _expect(reader.stretch(b"k", 1), [entry], f"an entry after a commit, in {name}")


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (absence, order, overwrite, delete, atomicity, persistence, model, interleaved, latest)
}


def isolation(one: OrderedKV, other: OrderedKV) -> None:
    """Many reads are of one state, whatever another client commits meanwhile, and a single one is of the latest."""
    before, after = [(b"a", b"1"), (b"c", b"1")], [(b"a", b"2"), (b"b", b"2")]
    with other.writing() as writer:
        for entry in before:
            writer.put(*entry)
    with one.reading() as reader:
        _expect(reader.first(b""), before[0], "the first")
        begun = reader.seek(b"")
        _expect(next(begun, None), before[0], "the first of a seek")
        with other.writing() as writer:
            writer.put(b"a", b"2")
            writer.put(b"b", b"2")
            writer.delete(b"c")
        _expect(list(begun), before[1:], "the rest of a seek that began before another's commit")
        _expect([reader.get(key) for key in (b"a", b"b", b"c")], [b"1", None, b"1"], "gets after another's commit")
        _expect(list(reader.seek(b"")), before, "a seek after another's commit")
        _expect(reader.first(b"b"), before[1], "the first from there on, after another's commit")
        _expect(reader.stretch(b"", 3), before, "three entries after another's commit")
    for scope in (one.single, one.reading):
        with scope() as reader:
            _expect(reader.stretch(b"", 3), after, "what was committed, in what began afterwards")


TWO_CLIENT_CHECKS: dict[str, Callable[[OrderedKV, OrderedKV], None]] = {"isolation": isolation}
"""Of two clients of an empty store: for engines that serve more than one."""
