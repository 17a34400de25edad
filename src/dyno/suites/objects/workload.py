"""Trial of the suite `objects`: its store, the preparation of each phase, and its facts."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.model import Absent, Fact, Phase
from dyno.contracts.suite import Job, Work
from dyno.host.filesystem import size_on_disk
from dyno.suites._shared.slots import Slots
from dyno.suites._shared.store import OnStore
from dyno.suites.objects import conformance
from dyno.suites.objects.dataset import BLOBS, OTHERS, OWN, SETS, SHARED, Model
from dyno.suites.objects.transactions import Connection, NullTransactions, ObjectPosition, Task, Transactions
from dyno.suites.objects.work import ClientWork, Verification, in_child_process

OTHER_OBJECTS = 10_000
"""Number of objects in each transaction that loads `min_objects`."""
NEEDS: Mapping[str, str] = {
    "add": OWN,
    "update": OWN,
    **dict.fromkeys(
        ("read-warm", "read-cold", "read-cold-prefetch", "read-hot", "read-steamin", "read-device"), SETS
    ),
    "conflicts": SHARED,
    "blob-read": BLOBS,
    "pack": SETS,
}
"""The branch that must be loaded before a phase."""


class ObjectsWorkload(OnStore):
    checks = conformance.BRIEF

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._model = Model(job.params, job.clients, job.seed, not job.spec.floor)
        self._loaded: set[str] = set()
        self._before_bytes: int | None = None

    # -- the store ------------------------------------------------------------------------------------------

    def port(self, engine: Engine, *how: Any) -> Any:
        port, container = self._job.port(engine), str(self._job.params["container"])
        return NullTransactions(port) if self._job.spec.floor else Transactions(port, container, self._model.objects)

    def _in_process(self) -> bool:
        """Returns whether the data is lost when the process that opened the store ends."""
        return self._job.spec.in_memory and self._job.server is None

    def prepare(self, phase: Phase) -> None:
        if phase.name == "conflicts" and self._job.clients == 1:
            raise Absent("needs at least two clients, which can conflict")
        self.begin()
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

    # -- phases ---------------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
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
    """History of transactions for crash tests, see `dyno.contracts.suite.History`. A slot is an object; its value is
    the object's content."""

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

    def state(self, commits: int) -> Mapping[str, Any]:
        return {slot: value.encode() for slot, value in self._slots.state(commits).items()}

    def found(self, port: Connection) -> Mapping[str, Any]:
        port.connection.cacheMinimize()
        with port.reading() as root:
            return {slot: item.content for slot, item in root[CONTAINER].items()}


WORKLOAD = ObjectsWorkload
