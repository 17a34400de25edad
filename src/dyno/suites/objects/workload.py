"""The suite `objects`: conformance checks of its port, which use known contents, and a trial."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from time import monotonic, sleep
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.equality import PlannedFailure, expect, same
from dyno.contracts.model import Absent, Fact, Phase, Tier, Wrong
from dyno.contracts.roles import PayloadWorkload
from dyno.contracts.suite import Job, Opened, Work, by_name
from dyno.host.filesystem import size_on_disk
from dyno.suites._shared.slots import Slots
from dyno.suites._shared.store import OnStore
from dyno.suites.objects.dataset import BLOBS, OTHERS, OWN, SETS, SHARED, Model
from dyno.suites.objects.transactions import Connection, NullTransactions, ObjectPosition, Task, Transactions
from dyno.suites.objects.work import ClientWork, Verification, in_child_process

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
        def __iter__(self) -> Iterator[bytes]:
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
"""Quick checks, run before measuring."""


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


OTHER_OBJECTS = 10_000
"""Number of objects in each transaction that loads `min_objects`."""
NEEDS: Mapping[str, str] = {
    **dict.fromkeys(("add", "update"), OWN),
    **dict.fromkeys(
        ("read-warm", "read-cold", "read-cold-prefetch", "read-hot", "read-steamin", "read-device"), SETS
    ),
    "conflicts": SHARED,
    "blob-read": BLOBS,
    "pack": SETS,
}
"""The branch that must be loaded before a phase."""


class ObjectsWorkload(OnStore, PayloadWorkload):
    checks = BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._model = Model(job.params, job.clients, job.seed, not job.spec.floor)
        self._loaded: set[str] = set()
        self._before_bytes: int | None = None

    def port(self, engine: Engine, *how: object) -> Any:
        port, container = self._job.port(engine), str(self._job.params["container"])
        if self._job.spec.floor:
            return NullTransactions(port)
        return Transactions(port, container, self._model.objects)

    def _in_process(self) -> bool:
        """Returns whether the data is lost when the process that opened the store ends."""
        return self._job.spec.in_memory and self._job.server is None

    def prepare(self, phase: Phase) -> None:
        if phase.name == "conflicts" and self._job.clients == 1:
            raise Absent("needs at least two clients, which can conflict")
        if self._job.spec.floor:
            return
        with self.connect() as port:
            if not self._loaded:
                port.branches(self._model.branches)
                self._loaded.add("")
                expected, first = int(self._job.params["min_objects"]), self._model.first(OTHERS, 0)
                for key, start in enumerate(range(0, expected, OTHER_OBJECTS)):
                    count = min(OTHER_OBJECTS, expected - start)
                    port.write(Task(OTHERS, key, self._model.dataset.contents(first + start, count, 0)))
            if phase.name.startswith("blob") and not port.has_blobs():
                raise Absent("its storage has no blobs")
            self._load(NEEDS.get(phase.name), port)
            if phase.name == "pack":
                self._litter(port)
        # Close the store, so that no cache keeps data that was loaded here or used by the previous phase.
        if not self._in_process():
            self.release()
        if phase.name == "pack":
            self._before_bytes = size_on_disk(self.engine().files())

    def _load(self, branch: str | None, port: Transactions) -> None:
        """Loads a branch once, for all phases that need it."""
        if branch is None or branch in self._loaded:
            return
        model, transactions = self._model, range(self._model.transactions)
        if branch == SHARED:
            port.counters(Task(SHARED, 0, model.contents(SHARED, 0)))
        elif branch == BLOBS:
            for key in transactions:
                port.write_blobs(Task(BLOBS, key, model.contents(BLOBS, key, blobs=True)))
        else:
            for key in transactions if branch == SETS else range(self._job.clients):
                port.write(Task(branch, key, model.contents(branch, key)))
        self._loaded.add(branch)

    def _litter(self, port: Transactions) -> None:
        """Creates garbage for a pack, independent of earlier phases: outdated states of each client's own objects,
        and half of the containers, which become unreachable."""
        self._load(OWN, port)
        model = self._model
        for client in range(self._job.clients):
            version = int(model.versions[client]) + 1
            port.update(Task(OWN, client, model.contents(OWN, client, version)))
            model.versions[client], model.unsure[client] = version, 0
        for key in range(model.removed, model.transactions // 2):
            port.remove(ObjectPosition(SETS, key))
            model.removed = key + 1

    def work(self, phase: Phase, port: Transactions, client: int, clients: int, round: int) -> Iterator[Work]:
        return ClientWork(self._model, phase.name, port, client, round).slices()

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        if phase.unit == "pack" or phase.name == "conflicts" or not phase.writes:
            return None
        return items * (self._model.blobs.size if phase.unit == "blob" else self._model.dataset.size)

    def verify(self, phase: Phase) -> int:
        if not phase.writes:
            return 0
        if self._in_process():
            return self._verify(phase.name)
        # Close the store, since some storages can be open in only one process.
        self.release()
        return in_child_process(partial(self._verify, phase.name))

    def _verify(self, phase: str) -> int:
        try:
            with self.connect() as port:
                return Verification(self._model, phase, self._job.clients, port).run()
        finally:
            if not self._in_process():
                self.release()

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._job.spec.floor:
            return {}
        if phase.name == "conflicts":
            conflicts, committed = self._model.conflicts.sum(), self._model.counted[:, 0].sum()
            return {"conflicts": int(conflicts), "transactions": int(committed)}
        if phase.name == "pack":
            return {"before_bytes": self._before_bytes, "after_bytes": size_on_disk(self.engine().files())}
        return {}


CONTAINER = "slots"


class ObjectsHistory:
    """History of transactions for crash tests, see `dyno.contracts.suite.History`. A slot is an object's content."""

    def __init__(self, job: Job) -> None:
        self._job, self._slots = job, Slots(job.seed)

    @contextmanager
    def open(self, engine: Engine) -> Iterator[Connection]:
        from persistent.mapping import PersistentMapping

        with closing(self._job.port(engine)) as port, closing(Connection(port.database)) as connection:
            with connection.reading() as root:
                exists = CONTAINER in root
            if not exists:
                with connection.writing() as root:
                    root[CONTAINER] = PersistentMapping()
            yield connection

    def commit(self, port: Connection, number: int) -> None:
        from dyno.suites.objects.items import Item

        with port.writing() as root:
            container = root[CONTAINER]
            for slot, value in self._slots.writes(number).items():
                if value is None:
                    del container[slot]
                elif slot in container:
                    container[slot].content = value.encode()
                else:
                    container[slot] = Item(value.encode())

    def state(self, commits: int) -> Mapping[str, bytes]:
        return {slot: value.encode() for slot, value in self._slots.state(commits).items()}

    def found(self, port: Connection) -> Mapping[str, bytes]:
        port.connection.cacheMinimize()
        with port.reading() as root:
            return {slot: item.content for slot, item in root[CONTAINER].items()}


WORKLOAD = ObjectsWorkload
