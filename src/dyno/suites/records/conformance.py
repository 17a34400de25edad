"""Conformance checks of the port `records`, which compare a store with a dict. They depend on no engine."""

import random
from collections.abc import Iterable, Iterator

from dyno.contracts.equality import PlannedFailure, expect
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Opened, by_name
from dyno.suites.records.layer import python_pack
from dyno.suites.records.port import INDEXES, Record, Records, entries


def make_record(name: str, stub: str = "x") -> Record:
    return {"name": name, "location": name.upper(), "stub": stub}


def key(name: str) -> tuple[str, str]:
    return name, name.upper()


def expect_entries(port: Records, names: Iterable[str], what: str) -> None:
    """Checks that an index that is stored beside the records has exactly one entry for each record."""
    records = [make_record(name) for name in names]
    with port.reading() as reader:
        for index, function in INDEXES.items():
            stored = entries(reader, index)
            if stored is not None:
                expected = sorted(python_pack(b"", (function(one), one["name"], one["location"])) for one in records)
                expect(list(stored), expected, f"entries of {index} {what}")


def absence(opened: Opened[Records], tier: Tier) -> None:
    """An empty store finds nothing; a store with one record doesn't find that record's neighbours."""
    with opened("absence", True) as port:
        expect(port.reader().get(key("a")), None, "get from an empty store")
        expect(port.reader().finder("rev_name")("a"), None, "find in an empty store")
        expect(port.reader().scanner(10)(key("a")), [], "scan of an empty store")
        port.insert([make_record("mm")])
        for name in ("m", "mmm", "ml", "mn", ""):
            expect(port.reader().get(key(name)), None, f"get of absent {name!r} beside 'mm'")
        expect(port.reader().get(("mm", "mm")), None, "get with the right name and a wrong location")
        for index, function in INDEXES.items():
            find = port.reader().finder(index)
            expect(find(function(make_record("m"))), None, f"find by {index} of an absent prefix")
            expect(find(function(make_record("mmm"))), None, f"find by {index} of an absent extension")


def order(opened: Opened[Records], tier: Tier) -> None:
    """A scan returns records in the byte order of their keys, independent of the order of insertion."""
    names = ["b", "a", "ab", "aa", "ba", "z", "zz", "aab", "m" * 40, "é", "zé", "\x01", "~"]
    with opened("order", True) as port:
        port.insert(make_record(name) for name in names)
        expected = [make_record(name) for name in sorted(names, key=lambda name: name.encode())]
        with port.reading() as reader:
            expect(reader.scanner(100)(("", "")), expected, "scan of everything")
            expect(reader.scanner(3)(("", "")), expected[:3], "scan of the first three")
            expect(reader.scanner(100)(key("m")), expected[7:], "scan from between two")
            expect(reader.scanner(2)(key("b"))[0], make_record("b"), "a scan includes the key that it starts from")


def many(opened: Opened[Records], tier: Tier) -> None:
    """`get_many` returns a record for each requested key in that order, duplicates too, and None for absent keys."""
    with opened("many", True) as port:
        expect(port.reader().get_many([key("a"), key("b")]), [None, None], "get_many from an empty store")
        port.insert(make_record(f"n{number:03}") for number in range(0, 500, 2))
        names = [f"n{number * 7 % 500:03}" for number in range(300)]
        expected = [make_record(name) if int(name[1:]) % 2 == 0 else None for name in names]
        expect(port.reader().get_many([key(name) for name in names]), expected, "get_many, every other absent")
        with port.reading() as reader:
            twice = reader.get_many([key("n002"), key("n001"), key("n002")])
            expect(twice, [make_record("n002"), None, make_record("n002")], "get_many, one key twice")
            expect(reader.get_many([key("n004")]), [make_record("n004")], "get_many of one")


def overwrite(opened: Opened[Records], tier: Tier) -> None:
    """A replacement returns the old record and leaves only the new one, in the store and in the indexes."""
    with opened("overwrite", True) as port:
        expect(port.replace([make_record("a", "1")]), [None], "old value of a new record")
        expect(port.replace([make_record("a", "2")]), [make_record("a", "1")], "old value of an overwritten record")
        twice = port.replace([make_record("a", "3"), make_record("b", "1"), make_record("a", "4")])
        expect(
            twice, [make_record("a", "2"), None, make_record("a", "3")], "old values, one key twice in a transaction"
        )
        with port.reading() as reader:
            expect(reader.get(key("a")), make_record("a", "4"), "get after overwriting")
            expect(reader.finder("rev_location")("A"), make_record("a", "4"), "find after overwriting")
            expect(
                reader.scanner(9)(key("a")), [make_record("a", "4"), make_record("b", "1")], "scan after overwriting"
            )
        expect_entries(port, "ab", "after overwriting")


def delete(opened: Opened[Records], tier: Tier) -> None:
    """A deleted record is gone from the store and the indexes, and can be inserted again."""
    with opened("delete", True) as port:
        port.insert([make_record("a"), make_record("b"), make_record("c")])
        expect(port.delete([key("b"), key("b"), key("x")]), [True, False, False], "deleting twice, and an absent one")
        expect(port.reader().get(key("b")), None, "get after deleting")
        for index, function in INDEXES.items():
            expect(port.reader().finder(index)(function(make_record("b"))), None, f"find by {index} after deleting")
        expect(port.reader().scanner(9)(key("a")), [make_record("a"), make_record("c")], "scan after deleting")
        expect_entries(port, "ac", "after deleting")
        expect(port.replace([make_record("b", "new")]), [None], "old value of a deleted record")
        expect(port.reader().finder("rev_name")("b"), make_record("b", "new"), "find after inserting again")


def atomicity(opened: Opened[Records], tier: Tier) -> None:
    """A transaction that fails leaves no trace."""

    def failing_records() -> Iterator[Record]:
        # Yield more records than an engine sends in one batch: those already sent must be rolled back too.
        for number in range(2_500):
            yield make_record(f"new{number}", "2")
        raise PlannedFailure

    with opened("atomicity", True) as port:
        port.insert([make_record("old", "1")])
        for write in (port.insert, port.replace):
            try:
                write(failing_records())
            except PlannedFailure:
                pass
            else:
                raise Wrong("a transaction whose input raised did not raise")
            expect(port.reader().scanner(9)(("", "")), [make_record("old", "1")], "scan after a failed transaction")
            expect_entries(port, ["old"], "after a failed transaction")


def noindices(opened: Opened[Records], tier: Tier) -> None:
    """Without indexes everything except lookups by index works the same."""
    with opened("noindices", False) as port:
        port.insert([make_record("a"), make_record("b")])
        expect(port.replace([make_record("a", "2")]), [make_record("a")], "old value")
        expect(port.delete([key("b")]), [True], "deleting")
        expect(port.reader().scanner(9)(("", "")), [make_record("a", "2")], "scan")


def persistence(opened: Opened[Records], tier: Tier) -> None:
    """Unless the tier is volatile, a store that is closed and opened again holds the same records."""
    if tier is Tier.VOLATILE:
        return
    with opened("persistence", True) as port:
        port.insert(make_record(f"n{i:03}") for i in range(100))
        port.delete([key("n050")])
    with opened("persistence", True) as port:
        expect(len(port.reader().scanner(200)(("", ""))), 99, "records after opening again")
        expect(port.reader().get(key("n050")), None, "a deleted record after opening again")
        expect(port.reader().finder("rev_name")("990n"), make_record("n099"), "find after opening again")
        expect_entries(port, (f"n{i:03}" for i in range(100) if i != 50), "after opening again")


def model(opened: Opened[Records], tier: Tier, steps: int = 400, seed: int = 1) -> None:
    """After random operations on few keys, the store and a dict have the same content."""
    rng = random.Random(seed)
    truth: dict[tuple[str, str], Record] = {}
    names = [f"k{i:02}" for i in range(30)]
    with opened("model", True) as port:
        for step in range(steps):
            chosen = rng.sample(names, rng.choice((1, 1, 2, 5)))
            kind = rng.choice(("replace", "replace", "delete", "insert", "get", "find", "scan"))
            _step(port, truth, kind, chosen, str(step))
        expected = [truth[k] for k in sorted(truth)]
        expect(port.reader().scanner(100)(("", "")), expected, "everything after random operations")
        expect_entries(port, (name for name, _ in truth), "after random operations")


def _step(port: Records, truth: dict[tuple[str, str], Record], kind: str, names: list[str], stub: str) -> None:
    reader = port.reader()
    if kind == "replace":
        news = [make_record(name, stub) for name in names]
        expect(port.replace(news), [truth.get(key(name)) for name in names], f"replace at step {stub}")
        truth.update((key(new["name"]), new) for new in news)
    elif kind == "insert":
        news = [make_record(name, stub) for name in names if key(name) not in truth]
        port.insert(news)
        truth.update((key(new["name"]), new) for new in news)
    elif kind == "delete":
        expected = [truth.pop(key(name), None) is not None for name in names]
        expect(port.delete([key(name) for name in names]), expected, f"delete at step {stub}")
    elif kind == "get":
        expect(reader.get(key(names[0])), truth.get(key(names[0])), f"get at step {stub}")
    elif kind == "find":
        old = reader.finder("rev_location")(names[0].upper()[::-1])
        expect(old, truth.get(key(names[0])), f"find at step {stub}")
    else:
        following = [truth[k] for k in sorted(truth) if k >= key(names[0])][:4]
        expect(reader.scanner(4)(key(names[0])), following, f"scan at step {stub}")


CHECKS = by_name(absence, order, many, overwrite, delete, atomicity, noindices, persistence, model)
BRIEF = {name: CHECKS[name] for name in ("overwrite", "delete", "persistence")}
"""Checks that take very little time. Workers run them before measuring."""
