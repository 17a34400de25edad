"""Runs the checks of the port `ordered-kv` on every engine at each tier, and on stores with deliberate errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from needed import require

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Job
from dyno.suites._shared.ordered_kv import CHECKS, PORT, TWO_CLIENT_CHECKS, KVReader, OrderedKV

pytestmark = pytest.mark.usefixtures("processes")

STORES = [
    (spec.reduce_to_port(PORT), tier)
    for spec in registry.engines()
    if PORT in spec.ports and not spec.floor
    for tier in spec.reduce_to_port(PORT).tiers
]


def opened(spec: EngineSpec, tier: Tier, home: Path) -> Any:
    @contextmanager
    def open_(name: str) -> Iterator[OrderedKV]:
        (home / name).mkdir(exist_ok=True)
        job = Job(spec, home, tier, spec.resolve({}), {}, seed=1, clients=1)
        with closing(job.open(home / name)) as engine, closing(job.port(engine)) as port:
            yield port

    return open_


@pytest.mark.claim("A key-value engine that reuses a cursor or iterator answers as if each read had its own")
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("spec", "tier"), STORES, ids=[f"{spec.name}-{tier.value}" for spec, tier in STORES])
def test_every_engine_passes(spec: EngineSpec, tier: Tier, check: str, tmp_path: Path) -> None:
    require(spec)
    assert not {gap.check for gap in spec.gaps} & CHECKS.keys(), "a gap that works is to be unmarked"
    CHECKS[check](opened(spec, tier, tmp_path), tier)


SHARED = [(spec, tier) for spec, tier in STORES if spec.clients != "one"]


@pytest.mark.claim(
    "Many reads in one transaction see one state, whatever is committed meanwhile, or the gap is listed"
)
@pytest.mark.parametrize("check", TWO_CLIENT_CHECKS)
@pytest.mark.parametrize(("spec", "tier"), SHARED, ids=[f"{spec.name}-{tier.value}" for spec, tier in SHARED])
def test_every_engine_of_several_clients_passes(spec: EngineSpec, tier: Tier, check: str, tmp_path: Path) -> None:
    require(spec)
    job = Job(spec, tmp_path, tier, spec.resolve({}), {}, seed=1, clients=2)
    known = check in {gap.check for gap in spec.gaps}
    expected = pytest.raises(Wrong) if known else nullcontext()
    with (
        closing(job.open(tmp_path)) as engine,
        closing(job.port(engine)) as one,
        closing(job.port(engine)) as other,
        expected,
    ):
        TWO_CLIENT_CHECKS[check](one, other)


class Honest(KVReader, OrderedKV):
    """A correct store in a dict."""

    def __init__(self, kv: dict[bytes, bytes]) -> None:
        self.kv = kv

    def get(self, key: bytes) -> bytes | None:
        return self.kv.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self.kv[key] = value

    def delete(self, key: bytes) -> None:
        self.kv.pop(key, None)

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(each, self.kv[each]) for each in sorted(self.kv) if each >= key])

    @contextmanager
    def reading(self) -> Iterator[Any]:
        yield self

    @contextmanager
    def writing(self) -> Iterator[Any]:
        before = dict(self.kv)
        try:
            yield self
        except BaseException:
            self.kv.clear()
            self.kv.update(before)
            raise


class SeeksBeyond(Honest):
    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(each, self.kv[each]) for each in sorted(self.kv) if each > key])


class OrdersByLength(Honest):
    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted(super().seek(key), key=lambda pair: (len(pair[0]), pair[0])))


class KeepsTheFirst(Honest):
    def put(self, key: bytes, value: bytes) -> None:
        self.kv.setdefault(key, value)


class DeletesNothing(Honest):
    def delete(self, key: bytes) -> None:
        pass


class Half(Honest):
    @contextmanager
    def writing(self) -> Iterator[Any]:
        yield self


class TakesEmptyForAbsent(Honest):
    def get(self, key: bytes) -> bytes | None:
        return self.kv.get(key) or None


class FindsByPrefix(Honest):
    def get(self, key: bytes) -> bytes | None:
        return next((value for each, value in self.kv.items() if each.startswith(key)), None)


class Forgets(Honest):
    def __init__(self, kv: dict[bytes, bytes]) -> None:
        super().__init__({})


class MovesOneCursor(Honest):
    """All seeks share one cursor."""

    def __init__(self, kv: dict[bytes, bytes]) -> None:
        super().__init__(kv)
        self.at: Iterator[tuple[bytes, bytes]] = iter(())

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.at = super().seek(key)
        return (entry for _ in self.kv if (entry := next(self.at, None)) is not None)


class KeepsItsSnapshot(Honest):
    """Reads from its first snapshot forever."""

    snapshot: Honest | None = None

    @contextmanager
    def reading(self) -> Iterator[Any]:
        self.snapshot = self.snapshot or Honest(dict(self.kv))
        yield self.snapshot


class FirstBeyond(Honest):
    def first(self, key: bytes) -> tuple[bytes, bytes] | None:
        return next((entry for entry in self.seek(key) if entry[0] > key), None)


class TooFew(Honest):
    def stretch(self, key: bytes, count: int) -> list[tuple[bytes, bytes]]:
        return super().stretch(key, count - 1)


class Isolated(Honest):
    @contextmanager
    def reading(self) -> Iterator[Any]:
        yield Honest(dict(self.kv))

    def single(self) -> AbstractContextManager[Any]:
        return nullcontext(self)


def run_check(kind: type[Honest], check: str) -> None:
    stores: dict[str, dict[bytes, bytes]] = {}
    CHECKS[check](lambda name: nullcontext(kind(stores.setdefault(name, {}))), Tier.PROCESS)


@pytest.mark.parametrize("check", CHECKS)
def test_an_honest_store_passes(check: str) -> None:
    run_check(Honest, check)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (SeeksBeyond, "order"),
        (OrdersByLength, "order"),
        (KeepsTheFirst, "overwrite"),
        (TakesEmptyForAbsent, "overwrite"),
        (DeletesNothing, "delete"),
        (Half, "atomicity"),
        (FindsByPrefix, "absence"),
        (Forgets, "persistence"),
        (DeletesNothing, "model"),
        (KeepsTheFirst, "model"),
        (FirstBeyond, "order"),
        (FirstBeyond, "model"),
        (TooFew, "order"),
        (MovesOneCursor, "interleaved"),
        (KeepsItsSnapshot, "latest"),
    ],
)
def test_a_wrong_store_fails(kind: type[Honest], check: str) -> None:
    with pytest.raises(Wrong):
        run_check(kind, check)


def test_isolation_check_passes_isolated_and_fails_other_stores() -> None:
    kv: dict[bytes, bytes] = {}
    TWO_CLIENT_CHECKS["isolation"](Isolated(kv), Isolated(kv))
    for wrong in (Honest, KeepsItsSnapshot):
        kv.clear()
        with pytest.raises(Wrong):
            TWO_CLIENT_CHECKS["isolation"](wrong(kv), Honest(kv))
