"""The conformance suite of the objects port: a database is held against contents that are known to be right.

Each check is a function of `opened`, which opens a fresh store or an earlier one by name, and of the tier. The tests
run all of them on every engine; a worker runs those in `BRIEF` before it measures. Nothing may be put here that
depends on an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import monotonic, sleep
from typing import Any

from dyno.contracts.equality import difference, same
from dyno.contracts.model import Tier, Wrong
from dyno.suites.objects.transactions import ObjectPosition, Task, Transactions

Opened = Callable[[str], AbstractContextManager[Transactions]]
Check = Callable[[Opened, Tier | None], None]
LATE_SECONDS = 10
BRANCH, HERE = "branch", ObjectPosition("branch", 0)


def contents(count: int, version: int = 0) -> list[bytes]:
    # Of a length of its own each, and with every byte.
    return [b"%d.%d." % (number, version) + bytes(range(256)) * (number % 3) for number in range(count)]


def expect(got: Any, wanted: Any, what: str) -> None:
    if not same(got, wanted):
        raise Wrong(f"{what}: {difference(got, wanted)}")


def task(written: Sequence[bytes], key: int = 0) -> Task:
    return Task(BRANCH, key, written)


def reads(opened: Opened, tier: Tier | None) -> None:
    """What one connection wrote another one reads, in every way of reading, as the objects that it wrote."""
    with opened("reads") as port:
        port.branches([BRANCH])
        expect(port.keys(BRANCH), [], "containers of a new branch")
        for key, count in enumerate((0, 1, 50)):
            port.write(task(contents(count), key))
            place = ObjectPosition(BRANCH, key)
            for read in (port.read, port.read_again, port.prefetch):
                expect(read(place), contents(count), f"{read.__name__} of {count} objects")
            port.forget()
            expect(port.read(place), contents(count), f"{count} objects, the caches empty")
            found = port.identities(place)
            expect([number for number, _ in found], list(range(count)), "their numbers")
            expect(len({oid for _, oid in found}), count, "how many objects they are")
        expect(port.keys(BRANCH), [0, 1, 2], "all containers")


def changes(opened: Opened, tier: Tier | None) -> None:
    """An update returns what was there and leaves the same objects with other contents; an add leaves others."""
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
            raise Wrong("an add left objects that were there before")
        port.remove(HERE)
        expect(port.keys(BRANCH), [], "containers after the removal of one")


def atomicity(opened: Opened, tier: Tier | None) -> None:
    """A transaction that fails leaves nothing of itself."""

    class Planned(Exception):
        pass

    class Failing(list[bytes]):
        def __iter__(self) -> Any:
            yield from contents(5, 7)
            raise Planned

    with opened("atomicity") as port:
        port.branches([BRANCH])
        port.write(task(contents(10)))
        for write, key in ((port.write, 1), (port.update, 0), (port.add, 0)):
            try:
                write(task(Failing(), key))
            except Planned:
                pass
            else:
                raise Wrong(f"{write.__name__}: a transaction whose input raised did not raise")
            expect(port.keys(BRANCH), [0], f"containers after a failed {write.__name__}")
            expect(port.read(HERE), contents(10), f"the contents after a failed {write.__name__}")


def persistence(opened: Opened, tier: Tier | None) -> None:
    """Unless the tier is volatile, a store that is closed and opened again holds what it held."""
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


def packing(opened: Opened, tier: Tier | None) -> None:
    """A pack takes away nothing that is led to."""
    with opened("packing") as port:
        port.branches([BRANCH])
        for key in range(3):
            port.write(task(contents(30), key))
        port.update(task(contents(30, 1), 1))
        port.remove(HERE)
        port.pack(None)
        port.forget()
        expect(port.keys(BRANCH), [1, 2], "containers after a pack")
        expect(port.read(ObjectPosition(BRANCH, 1)), contents(30, 1), "what was updated before a pack")
        expect(port.read(ObjectPosition(BRANCH, 2)), contents(30), "what was not")


def blobs(opened: Opened, tier: Tier | None) -> None:
    """Where there are blobs, each is read as it was written."""
    with opened("blobs") as port:
        if not port.has_blobs():
            return
        port.branches([BRANCH])
        written = [b"", b"x", bytes(range(256)) * 400]
        port.write_blobs(task(written))
        expect(port.read_blobs(HERE), written, "blobs")
        port.forget()
        expect(port.read_blobs(HERE), written, "blobs, the caches empty")


CHECKS: dict[str, Check] = {
    check.__name__: check for check in (reads, changes, atomicity, persistence, packing, blobs)
}
BRIEF: dict[str, Check] = {name: CHECKS[name] for name in ("reads", "changes", "persistence")}
"""Those that take next to no time."""


def conflict(one: Transactions, other: Transactions) -> None:
    """Of two clients who change the same objects at the same time, one has to do it again, and nothing is lost."""
    one.branches([BRANCH])
    one.counters(task(contents(5)))
    for client in (one, other, other, one):
        client.count(HERE)
    try:
        with one.writing() as root:
            for item in root[HERE.branch][HERE.key].values():
                item.count += 1
            # In the middle of it.
            other.count(HERE)
    except Exception as error:
        if not one.retryable(error):
            raise Wrong(f"a conflict is not told as one: {type(error).__name__}: {error}") from error
    else:
        raise Wrong("what another client had changed meanwhile was committed over")
    for client in (one, other):
        _finds(client, [5] * 5)


def _finds(client: Transactions, wanted: list[int]) -> None:
    """A storage may learn a little later what others have committed: it need not ask at each transaction."""
    deadline = monotonic() + LATE_SECONDS
    while not same(client.counted(HERE), wanted) and monotonic() < deadline:
        sleep(0.01)
    expect(client.counted(HERE), wanted, "how often each object was changed, with a conflict")


OF_TWO: dict[str, Callable[[Transactions, Transactions], None]] = {"conflict": conflict}
"""Of two clients of an empty store: for engines that serve more than one."""
