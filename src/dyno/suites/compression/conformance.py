"""The conformance suite of batches on an ordered key-value store. Nothing may be put here that depends on an engine.

Each check is a function of `opened`, which opens a fresh store or an earlier one by name and size of batches, and of
the tier. The tests run all of them on every engine and packer; a worker does too before it measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dyno.contracts.equality import difference, same
from dyno.contracts.model import Tier, Wrong
from dyno.suites.compression.batches import FIRST, Batches
from dyno.suites.compression.dataset import Record, key_of

Opened = Callable[[str, int], AbstractContextManager[Batches]]
Check = Callable[[Opened, Tier], None]
COUNT = 7


def record(number: int) -> Record:
    # Of a length of its own, and with what is escaped.
    return {"id": key_of(number).hex(), "tags": ["é", '"', "\n"], "summary": "ab" * (number * 50)}


def store(port: Batches, numbers: Sequence[int], size: int) -> None:
    with port.writing() as write:
        for at in range(0, len(numbers), size):
            write([(key_of(number), record(number)) for number in numbers[at : at + size]])


def expect(got: Any, wanted: Any, what: str) -> None:
    if not same(got, wanted):
        raise Wrong(f"{what}: {difference(got, wanted)}")


def lookups(opened: Opened, tier: Tier) -> None:
    """Every record is found in its batch, and none that is not there: before, between and after."""
    for size in (1, 3, COUNT):
        with opened(f"lookups-{size}", size) as port:
            with port.reading() as reader:
                expect(reader.get(key_of(1)), None, "get from an empty store")
            store(port, range(1, COUNT + 1), size)
            with port.reading() as reader:
                for number in range(1, COUNT + 1):
                    expect(reader.get(key_of(number)), record(number), f"get, batches of {size}")
                    beside = (int.from_bytes(key_of(number), "big") + 1).to_bytes(len(FIRST), "big")
                    expect(reader.get(beside), None, f"get of what is not there, batches of {size}")
                expect(reader.get(key_of(0)), None, "get of what comes before all")
                expect(reader.get(key_of(COUNT + 1)), None, "get of what comes after all")


def order(opened: Opened, tier: Tier) -> None:
    """An iteration has every record once, in key order, whatever the order in which batches were stored."""
    for size in (1, 3):
        with opened(f"order-{size}", size) as port:
            for start in (6, 0, 3):
                store(port, range(start, start + 3), size)
            with port.reading() as reader:
                expect(reader.iterate(FIRST), [record(number) for number in range(9)], f"all, batches of {size}")
            with port.entries() as entries:
                keys = [key for key, _ in entries]
                expect(keys, [key_of(at) for at in range(size - 1, 9, size)], f"keys of entries, batches of {size}")


def atomicity(opened: Opened, tier: Tier) -> None:
    """A transaction that fails leaves nothing of itself."""

    class Planned(Exception):
        pass

    with opened("atomicity", 2) as port:
        store(port, range(2), 2)
        try:
            with port.writing() as write:
                write([(key_of(2), record(2)), (key_of(3), record(3))])
                raise Planned
        except Planned:
            pass
        with port.reading() as reader:
            expect(reader.iterate(FIRST), [record(0), record(1)], "all after a failed transaction")


def persistence(opened: Opened, tier: Tier) -> None:
    """Unless the tier is volatile, a store that is closed and opened again holds what it held."""
    if tier is Tier.VOLATILE:
        return
    with opened("persistence", 3) as port:
        store(port, range(COUNT), 3)
    with opened("persistence", 3) as port, port.reading() as reader:
        expect(reader.iterate(FIRST), [record(number) for number in range(COUNT)], "all after opening again")


CHECKS: dict[str, Check] = {check.__name__: check for check in (lookups, order, atomicity, persistence)}
