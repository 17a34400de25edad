"""Conformance checks of batches on an ordered key-value store, which depend on no engine.

A check gets `opened`, which opens a new or existing store by name and batch size, and the tier. The tests run all
checks on every engine and packer. A worker also runs all of them before it measures.
"""

from __future__ import annotations

from collections.abc import Sequence

from dyno.contracts.equality import PlannedFailure, expect
from dyno.contracts.model import Tier
from dyno.contracts.suite import Opened, by_name
from dyno.suites.compression.batches import FIRST, Batches
from dyno.suites.compression.dataset import Record, key_of

COUNT = 7


def record(number: int) -> Record:
    # Records have different lengths, and characters that JSON escapes.
    return {"id": key_of(number).hex(), "tags": ["é", '"', "\n"], "summary": "ab" * (number * 50)}


def store(port: Batches, numbers: Sequence[int], size: int) -> None:
    with port.writing() as write:
        for at in range(0, len(numbers), size):
            write([(key_of(number), record(number)) for number in numbers[at : at + size]])


def lookups(opened: Opened[Batches], tier: Tier) -> None:
    """Every record is found in its batch; absent keys before, between and after the records are not."""
    for size in (1, 3, COUNT):
        with opened(f"lookups-{size}", size) as port:
            with port.reading() as reader:
                expect(reader.get(key_of(1)), None, "get from an empty store")
            store(port, range(1, COUNT + 1), size)
            with port.reading() as reader:
                for number in range(1, COUNT + 1):
                    expect(reader.get(key_of(number)), record(number), f"get, batches of {size}")
                    beside = (int.from_bytes(key_of(number), "big") + 1).to_bytes(len(FIRST), "big")
                    expect(reader.get(beside), None, f"get of an absent key, batches of {size}")
                expect(reader.get(key_of(0)), None, "get of a key before all")
                expect(reader.get(key_of(COUNT + 1)), None, "get of a key after all")


def order(opened: Opened[Batches], tier: Tier) -> None:
    """An iteration returns every record once, in key order, independent of the order in which batches were stored."""
    for size in (1, 3):
        with opened(f"order-{size}", size) as port:
            for start in (6, 0, 3):
                store(port, range(start, start + 3), size)
            with port.reading() as reader:
                expect(reader.iterate(FIRST), [record(number) for number in range(9)], f"all, batches of {size}")
            with port.entries() as entries:
                keys = [key for key, _ in entries]
                expect(keys, [key_of(at) for at in range(size - 1, 9, size)], f"keys of entries, batches of {size}")


def atomicity(opened: Opened[Batches], tier: Tier) -> None:
    """A transaction that fails leaves no trace."""
    with opened("atomicity", 2) as port:
        store(port, range(2), 2)
        try:
            with port.writing() as write:
                write([(key_of(2), record(2)), (key_of(3), record(3))])
                raise PlannedFailure
        except PlannedFailure:
            pass
        with port.reading() as reader:
            expect(reader.iterate(FIRST), [record(0), record(1)], "all after a failed transaction")


def persistence(opened: Opened[Batches], tier: Tier) -> None:
    """Unless the tier is volatile, a store that is closed and opened again holds the same records."""
    if tier is Tier.VOLATILE:
        return
    with opened("persistence", 3) as port:
        store(port, range(COUNT), 3)
    with opened("persistence", 3) as port, port.reading() as reader:
        expect(reader.iterate(FIRST), [record(number) for number in range(COUNT)], "all after opening again")


CHECKS = by_name(lookups, order, atomicity, persistence)
