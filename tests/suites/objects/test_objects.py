"""Tests every storage of the port `objects` by the port's checks: at each tier, on each database that RelStorage
supports, with and without history; and the checks themselves, against broken databases."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from held import Store
from needed import require, unavailable
from shell import DISK

from dyno import registry
from dyno.contracts.engine import Server
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Job
from dyno.selftest.flushes import COMMITS, PROVEN, claims, proofs
from dyno.suites.objects.dataset import Model
from dyno.suites.objects.transactions import PORT, Attempts, ObjectPosition, Task, Transactions
from dyno.suites.objects.workload import BRANCH, CHECKS, TWO_CLIENT_CHECKS, contents, task

pytestmark = pytest.mark.usefixtures("processes")

SPECS = {spec.name: spec.reduce_to_port(PORT) for spec in registry.engines() if PORT in spec.ports and not spec.floor}
BACKENDS = ("sqlite", "postgresql", "mariadb")


class Storage(Store):
    """A storage on a server shared with others."""

    def job(self, home: Path, server: Server | None) -> Job:
        home.mkdir(parents=True, exist_ok=True)
        return Job(self.spec, home, self.tier, self.spec.resolve(self.given), {}, seed=1, clients=2, server=server)

    def server(self, home: Path) -> Server | None:
        """The storage's server, not started."""
        return self.spec.create_server(home, self.tier, self.spec.resolve(self.given), 2)

    @property
    def served_by(self) -> str:
        """Key of the server: stores with the same key share one."""
        return f"{self.spec.name}-{self.tier.value}-{self.given.get('backend', '')}"


def storages() -> Iterator[Storage]:
    for spec in SPECS.values():
        for tier in spec.tiers:
            if spec.name != "relstorage":
                yield Storage(spec, tier)
            elif tier is spec.default_tier:
                for backend in BACKENDS:
                    yield from (Storage(spec, tier, {"backend": backend, "history": h}) for h in ("keep", "free"))
            else:
                yield Storage(spec, tier)
    relstorage = SPECS["relstorage"]
    yield from (Storage(relstorage, Tier.POWER, {"cache": cache}) for cache in ("file", "none"))


def containers(store: Storage) -> tuple[str, ...]:
    """The containers to test. The many storages of RelStorage share its client, so each gets one of both."""
    if store.spec.name != "relstorage":
        return ("mapping", "btree")
    if store.given.get("history") == "free":
        return ("btree",)
    return ("mapping",)


Serving = Callable[[Storage], tuple[Path, Server | None]]


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """A directory for the stores of a test, and their server, which runs until the module's tests are over."""
    with ExitStack() as open_:
        place = Path(tempfile.mkdtemp(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None))
        place.chmod(0o755)
        open_.callback(shutil.rmtree, place, ignore_errors=True)
        started: dict[str, Server | None] = {}
        numbers = count()

        def served(store: Storage) -> tuple[Path, Server | None]:
            if store.served_by not in started:
                # A short path, because a socket's path has a length limit.
                server = store.server(place / f"s{len(started)}")
                if server is not None:
                    open_.enter_context(closing(server)).start()
                started[store.served_by] = server
            return place / f"t{next(numbers)}", started[store.served_by]

        yield served


@contextmanager
def transactions(engine: Any, job: Job, container: str = "mapping") -> Iterator[Transactions]:
    with closing(Transactions(job.port(engine), container, 50)) as port:
        yield port


@pytest.mark.parametrize("store", list(storages()), ids=str)
def test_every_storage_passes_the_checks(store: Storage, serving: Serving) -> None:
    store.need()
    for container in containers(store):
        place, server = serving(store)

        @contextmanager
        def opened(name: str, place: Path = place, server: Any = server, kind: str = container) -> Iterator[Any]:
            job = store.job(place / name, server)
            with closing(job.open(job.home)) as engine, transactions(engine, job, kind) as port:
                yield port

        for check in CHECKS.values():
            check(opened, store.tier)


@pytest.mark.parametrize("store", list(storages()), ids=str)
def test_concurrent_changes_conflict_and_none_is_lost(store: Storage, serving: Serving) -> None:
    store.need()
    # Threads share a database; each process has its own storage.
    ways = {"threads"} | {store.spec.clients}
    for way in sorted(ways):
        place, server = serving(store)
        job = store.job(place, server)
        with ExitStack() as open_:
            engine = open_.enter_context(closing(job.open(job.home)))
            other = engine if way == "threads" else open_.enter_context(closing(job.open(job.home)))
            for check in TWO_CLIENT_CHECKS.values():
                check(
                    open_.enter_context(transactions(engine, job)),
                    open_.enter_context(transactions(other, job)),
                )


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_transaction_can_change_many_objects(backend: str, serving: Serving) -> None:
    """PostgreSQL takes a lock per object; by default it has 6,400 for all transactions that commit."""
    store = Storage(SPECS["relstorage"], Tier.POWER, {"backend": backend})
    store.need()
    place, server = serving(store)
    job, count = store.job(place, server), 7_000
    with closing(job.open(job.home)) as engine, closing(Transactions(job.port(engine), "mapping", count)) as port:
        port.branches([BRANCH])
        port.write(task(contents(count)))
        port.update(task(contents(count, 1)))
        assert port.prefetch(ObjectPosition(BRANCH, 0)) == contents(count, 1)


@pytest.mark.parametrize("store", list(storages()), ids=str)
def test_a_storage_reports_its_version_settings_and_files(store: Storage, serving: Serving) -> None:
    store.need()
    place, server = serving(store)
    job = store.job(place, server)
    with closing(job.open(job.home)) as engine:
        assert "ZODB" in engine.version()
        told = engine.settings()
        declared = {name: str(value) for name, value in store.spec.tiers[store.tier].items()}
        found = {name: str(told[name]) for name in declared if name in told}
        assert found.items() <= declared.items() and bool(found) == bool(declared)
        with transactions(engine, job) as port:
            port.branches([BRANCH])
            port.write(task(contents(50)))
        files = list(engine.files())
        assert all(path.is_file() for path in files) and bool(files) != store.spec.in_memory
    # The engine still reports its files after it is closed.
    assert {path.name for path in files} & {path.name for path in engine.files()} or store.spec.in_memory
    job.remove(job.home)
    assert not job.home.exists()


# -- tiers ------------------------------------------------------------------------------------------------


TRACED = (
    ("filestorage", Tier.POWER),
    ("zeo", Tier.POWER),
    *((f"relstorage:backend={backend}", Tier.POWER) for backend in BACKENDS),
    # The servers' own flushes at tier process are in the durability tests of the suite `records`.
    ("relstorage:backend=sqlite", Tier.PROCESS),
)


@pytest.mark.parametrize(("engine", "tier"), TRACED, ids=lambda one: str(getattr(one, "value", one)))
def test_a_commit_flushes_as_its_tier_promises(engine: str, tier: Tier) -> None:
    require(registry.engine(engine.partition(":")[0]))
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as place:
        Path(place).chmod(0o711)
        (found,) = proofs(claims([engine], tier.value), Path(place))
    if found.seen is None:
        unavailable(f"engine {engine}: {found.why}")
    assert (found.verdict, found.why) == (PROVEN, "")
    seen = found.seen
    assert seen is not None and (seen.flushed if tier is Tier.POWER else seen.written) == COMMITS
    # If it also flushed at tier process, the tiers could not be distinguished.
    assert tier is Tier.POWER or sum(seen.flushes.values()) < COMMITS / 2


# -- the checks themselves --------------------------------------------------------------------------------


class Honest:
    """A correct implementation of `Transactions` over dicts."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.kept = kept
        self.next = kept.setdefault("", [0])

    def _new(self, content: bytes) -> list[Any]:
        self.next[0] += 1
        return [self.next[0].to_bytes(8, "big"), content]

    def branches(self, names: Any) -> None:
        for name in names:
            self.kept.setdefault(name, {})

    def write(self, task: Task) -> None:
        made = {number: self._new(content) for number, content in enumerate(task.contents)}
        self.kept[task.branch][task.key] = made

    def add(self, task: Task) -> None:
        self.kept[task.branch][task.key].update({n: self._new(c) for n, c in enumerate(task.contents)})

    def update(self, task: Task) -> list[bytes]:
        new = list(task.contents)
        found = self.kept[task.branch][task.key].values()
        before = [item[1] for item in found]
        for item, content in zip(found, new, strict=True):
            item[1] = content
        return before

    def read(self, place: ObjectPosition) -> list[bytes]:
        return [item[1] for item in self.kept[place.branch][place.key].values()]

    def read_again(self, place: ObjectPosition) -> list[bytes]:
        return self.read(place)

    def prefetch(self, place: ObjectPosition) -> list[bytes]:
        return self.read(place)

    def write_blobs(self, task: Task) -> None:
        self.write(task)

    def read_blobs(self, place: ObjectPosition) -> list[bytes]:
        return self.read(place)

    def pack(self, _: Any) -> None:
        pass

    def remove(self, place: ObjectPosition) -> None:
        del self.kept[place.branch][place.key]

    def keys(self, branch: str) -> list[int]:
        return sorted(self.kept.get(branch, {}))

    def identities(self, place: ObjectPosition) -> list[tuple[int, bytes]]:
        return [(number, item[0]) for number, item in self.kept[place.branch][place.key].items()]

    def forget(self) -> None:
        pass

    def has_blobs(self) -> bool:
        return True

    def count(self, place: ObjectPosition) -> Attempts:
        return Attempts(0, 0, 0)


class ReadsBackwards(Honest):
    def read(self, place: ObjectPosition) -> list[bytes]:
        return super().read(place)[::-1]


class PrefetchesTooFew(Honest):
    def prefetch(self, place: ObjectPosition) -> list[bytes]:
        return super().prefetch(place)[1:]


class UpdatesNothing(Honest):
    def update(self, task: Task) -> list[bytes]:
        return self.read(ObjectPosition(task.branch, task.key))


class AddsToTheSame(Honest):
    def add(self, task: Task) -> None:
        self.update(task)


class Half(Honest):
    def write(self, task: Task) -> None:
        made = self.kept[task.branch].setdefault(task.key, {})
        for number, content in enumerate(task.contents):
            made[number] = self._new(content)


class Forgets(Honest):
    def __init__(self, kept: dict[str, Any]) -> None:
        super().__init__({})
        self.kept[BRANCH] = {0: {}}


class PacksTooMuch(Honest):
    def pack(self, _: Any) -> None:
        self.kept[BRANCH].popitem()


class CutsBlobs(Honest):
    def read_blobs(self, place: ObjectPosition) -> list[bytes]:
        return [content[:1000] for content in super().read_blobs(place)]


def held(kind: type[Honest], check: str) -> None:
    kept: dict[str, dict[str, Any]] = {}

    @contextmanager
    def opened(name: str) -> Iterator[Any]:
        yield kind(kept.setdefault(name, {}))

    CHECKS[check](opened, Tier.POWER)


@pytest.mark.parametrize("check", CHECKS)
def test_a_correct_database_passes(check: str) -> None:
    held(Honest, check)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (ReadsBackwards, "reads"),
        (PrefetchesTooFew, "reads"),
        (UpdatesNothing, "changes"),
        (AddsToTheSame, "changes"),
        (Half, "atomicity"),
        (Forgets, "persistence"),
        (PacksTooMuch, "packing"),
        (CutsBlobs, "blobs"),
    ],
)
def test_wrong_database_fails_the_check(kind: type[Honest], check: str) -> None:
    with pytest.raises(Wrong):
        held(kind, check)


def test_object_numbers_are_unique_over_all_branches() -> None:
    params = {"objects": 100, "object_size": 128, "blobs": 1, "blob_size": 128, "transactions": 1}
    model = Model(params, clients=3, seed=1)
    firsts = [model.first(branch, key) for branch in model.branches for key in (0, 1, 1_000_000)]
    assert len({*firsts}) == len(firsts) and min(b - a for a in firsts for b in firsts if b > a) >= 100
