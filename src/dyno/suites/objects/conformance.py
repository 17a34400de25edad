"""Conformance checks of the port `objects`, which compare a database with known contents. They depend on no engine.

A check gets `opened`, which opens a new or existing store by name, and the tier. The tests run all checks on every
engine. A worker runs those in `BRIEF` before it measures.
"""

from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Any

from dyno.contracts.equality import PlannedFailure, expect, same
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Opened, by_name
from dyno.suites.objects.transactions import ObjectPosition, Task, Transactions

LATE_SECONDS = 10
BRANCH, HERE = "branch", ObjectPosition("branch", 0)


def contents(count: int, version: int = 0) -> list[bytes]:
    # Contents have different lengths, and contain every byte.
    return [b"%d.%d." % (number, version) + bytes(range(256)) * (number % 3) for number in range(count)]


def task(written: Sequence[bytes], key: int = 0) -> Task:
    return Task(BRANCH, key, written)


def reads(opened: Opened[Transactions], tier: Tier | None) -> None:
    """One connection reads what another wrote, by every method that reads, and gets the same objects."""
    with opened("reads") as port:
        port.branches([BRANCH])
        expect(port.keys(BRANCH), [], "containers of a new branch")
        for key, count in enumerate((0, 1, 50)):
            port.write(task(contents(count), key))
            position = ObjectPosition(BRANCH, key)
            for read in (port.read, port.read_again, port.prefetch):
                expect(read(position), contents(count), f"{read.__name__} of {count} objects")
            port.forget()
            expect(port.read(position), contents(count), f"{count} objects with empty caches")
            objects = port.identities(position)
            expect([number for number, _ in objects], list(range(count)), "numbers of the objects")
            expect(len({oid for _, oid in objects}), count, "number of different objects")
        expect(port.keys(BRANCH), [0, 1, 2], "all containers")


def changes(opened: Opened[Transactions], tier: Tier | None) -> None:
    """An update returns the old contents and keeps the objects; an add replaces the objects."""
    with opened("changes") as port:
        port.branches([BRANCH])
        port.write(task(contents(20)))
        first = port.identities(HERE)
        expect(port.update(task(contents(20, 1))), contents(20), "the contents before an update")
        expect(port.read(HERE), contents(20, 1), "the contents after an update")
        expect(port.identities(HERE), first, "the objects after an update")
        port.add(task(contents(20, 2)))
        expect(port.read(HERE), contents(20, 2), "the contents after an add")
        second = port.identities(HERE)
        expect([number for number, _ in second], list(range(20)), "the numbers after an add")
        if {oid for _, oid in first} & {oid for _, oid in second}:
            raise Wrong("an add kept objects that it should have replaced")
        port.remove(HERE)
        expect(port.keys(BRANCH), [], "containers after the removal of one")


def atomicity(opened: Opened[Transactions], tier: Tier | None) -> None:
    """A transaction that fails leaves no trace."""

    class Failing(list[bytes]):
        def __iter__(self) -> Any:
            yield from contents(5, 7)
            raise PlannedFailure

    with opened("atomicity") as port:
        port.branches([BRANCH])
        port.write(task(contents(10)))
        for write, key in ((port.write, 1), (port.update, 0), (port.add, 0)):
            try:
                write(task(Failing(), key))
            except PlannedFailure:
                pass
            else:
                raise Wrong(f"{write.__name__}: a transaction whose input raised did not raise")
            expect(port.keys(BRANCH), [0], f"containers after a failed {write.__name__}")
            expect(port.read(HERE), contents(10), f"the contents after a failed {write.__name__}")


def persistence(opened: Opened[Transactions], tier: Tier | None) -> None:
    """Unless the tier is volatile, a store that is closed and opened again holds the same objects."""
    if tier is Tier.VOLATILE:
        return
    with opened("persistence") as port:
        port.branches([BRANCH])
        port.write(task(contents(100)))
        port.update(task(contents(100, 1)))
        objects = port.identities(HERE)
    with opened("persistence") as port:
        expect(port.read(HERE), contents(100, 1), "the contents after opening again")
        expect(port.identities(HERE), objects, "the objects after opening again")


def packing(opened: Opened[Transactions], tier: Tier | None) -> None:
    """A pack keeps everything that is reachable."""
    with opened("packing") as port:
        port.branches([BRANCH])
        for key in range(3):
            port.write(task(contents(30), key))
        port.update(task(contents(30, 1), 1))
        port.remove(HERE)
        port.pack(None)
        port.forget()
        expect(port.keys(BRANCH), [1, 2], "containers after a pack")
        expect(port.read(ObjectPosition(BRANCH, 1)), contents(30, 1), "an updated container after a pack")
        expect(port.read(ObjectPosition(BRANCH, 2)), contents(30), "an unchanged container after a pack")


def blobs(opened: Opened[Transactions], tier: Tier | None) -> None:
    """If the storage has blobs, each is read as it was written."""
    with opened("blobs") as port:
        if not port.has_blobs():
            return
        port.branches([BRANCH])
        written = [b"", b"x", bytes(range(256)) * 400]
        port.write_blobs(task(written))
        expect(port.read_blobs(HERE), written, "blobs")
        port.forget()
        expect(port.read_blobs(HERE), written, "blobs with empty caches")


CHECKS = by_name(reads, changes, atomicity, persistence, packing, blobs)
BRIEF = {name: CHECKS[name] for name in ("reads", "changes", "persistence")}
"""Checks that take very little time."""


def conflict(one: Transactions, other: Transactions) -> None:
    """If two clients change the same objects at the same time, one must retry, and no change is lost."""
    one.branches([BRANCH])
    one.counters(task(contents(5)))
    for client in (one, other, other, one):
        client.count(HERE)
    try:
        with one.writing() as root:
            for item in root[HERE.branch][HERE.key].values():
                item.count += 1
            # Let the other client commit in the middle of this transaction.
            other.count(HERE)
    except Exception as error:
        if not one.retryable(error):
            raise Wrong(f"a conflict raised {type(error).__name__} rather than ConflictError: {error}") from error
    else:
        raise Wrong("a commit overwrote a concurrent change of another client")
    for client in (one, other):
        # Wait: a storage need not fetch others' commits at each transaction, so they may become visible a little
        # later.
        deadline = monotonic() + LATE_SECONDS
        while not same(client.counted(HERE), [5] * 5) and monotonic() < deadline:
            sleep(0.01)
        expect(client.counted(HERE), [5] * 5, "changes of each object, with a conflict")


TWO_CLIENT_CHECKS: dict[str, Callable[[Transactions, Transactions], None]] = {"conflict": conflict}
"""Checks with two clients on an empty store, for engines that support several clients."""
