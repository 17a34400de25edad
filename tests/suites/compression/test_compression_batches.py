"""Tests batches on every engine of the port `ordered-kv`, and every packer on one engine, by the suite's checks; and
the checks themselves: each fails on a store that is broken in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from needed import require

from dyno import registry
from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Tier, Wrong
from dyno.contracts.suite import Opened
from dyno.suites._shared.ordered_kv import KVReader
from dyno.suites._shared.store import brief
from dyno.suites.compression import PACKER_SPECS, open_packer
from dyno.suites.compression.batches import Batches
from dyno.suites.compression.workload import CHECKS

pytestmark = pytest.mark.usefixtures("processes")

ENGINES = [spec for spec in registry.engines() if "ordered-kv" in spec.ports and not spec.floor]
EVERY = [(spec, tier, "zlib") for spec in ENGINES for tier in spec.tiers]
PACKED = [(registry.engine("lmdb"), Tier.PROCESS, packer) for packer in PACKER_SPECS]


def opened(spec: EngineSpec, tier: Tier, home: Path, packer: str = "zlib") -> Opened:
    @contextmanager
    def opened(name: str, size: int) -> Iterator[Batches]:
        (home / name).mkdir(parents=True, exist_ok=True)
        with (
            closing(spec.opener(home / name, tier, spec.resolve({}))) as engine,
            closing(Batches(spec.ports["ordered-kv"].open(engine), open_packer(packer), size)) as port,
        ):
            yield port

    return opened


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    ("spec", "tier", "packer"), [*EVERY, *PACKED], ids=lambda value: getattr(value, "name", value)
)
def test_an_engine_passes_the_check(spec: EngineSpec, tier: Tier, packer: str, check: str, tmp_path: Path) -> None:
    require(spec)
    CHECKS[check](opened(spec, tier, tmp_path, packer), tier)


# -- the checks themselves --------------------------------------------------------------------------------


class Store:
    """A correct store over a dict; the broken stores derive from it."""

    stores: dict[Path, dict[bytes, bytes]]

    def __init__(self, home: Path, tier: Tier, options: Any) -> None:
        self.entries = self.stores.setdefault(home, {})

    def close(self) -> None:
        pass


class Keys(KVReader):
    def __init__(self, engine: Store) -> None:
        self.entries = engine.entries
        self.waiting: dict[bytes, bytes] = {}

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(entry_key, self.entries[entry_key]) for entry_key in sorted(self.entries) if entry_key >= key])

    @contextmanager
    def reading(self) -> Iterator[Any]:
        yield self

    @contextmanager
    def writing(self) -> Iterator[Any]:
        self.waiting = {}
        yield self
        self.entries.update(self.waiting)

    def put(self, key: bytes, value: bytes) -> None:
        self.waiting[key] = value

    def close(self) -> None:
        pass


class Forgets(Store):
    def close(self) -> None:
        self.entries.clear()


class SeeksBeyond(Keys):
    """A seek skips an entry with exactly the given key."""

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(entry_key, self.entries[entry_key]) for entry_key in sorted(self.entries) if entry_key > key])


class SeeksBefore(Keys):
    """A seek starts with the entry before the key, if one exists."""

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        keys = sorted(self.entries)
        first = max(sum(entry_key < key for entry_key in keys) - 1, 0)
        return iter([(entry_key, self.entries[entry_key]) for entry_key in keys[first:]])


class KeepsInsertionOrder(Keys):
    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(entry_key, value) for entry_key, value in self.entries.items() if entry_key >= key])


class WritesAtOnce(Keys):
    def put(self, key: bytes, value: bytes) -> None:
        self.entries[key] = value


def spec(port: Callable[..., Keys] = Keys, opener: type[Store] = Store) -> EngineSpec:
    opener_class: Any = type("Opener", (opener,), {"stores": {}})
    return EngineSpec(
        "fake", "a fake", opener_class, {"ordered-kv": PortSpec(port)}, {Tier.PROCESS: {}}, Tier.PROCESS
    )


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("lookups", spec(SeeksBeyond)),
        ("lookups", spec(SeeksBefore)),
        ("order", spec(KeepsInsertionOrder)),
        ("atomicity", spec(WritesAtOnce)),
        ("persistence", spec(opener=Forgets)),
    ],
    ids=("beyond", "before", "insertion order", "at once", "forgets"),
)
def test_check_passes_correct_and_fails_broken_store(check: str, broken: EngineSpec, tmp_path: Path) -> None:
    CHECKS[check](opened(spec(), Tier.PROCESS, tmp_path / "correct"), Tier.PROCESS)
    with pytest.raises(Wrong):
        CHECKS[check](opened(broken, Tier.PROCESS, tmp_path / "broken"), Tier.PROCESS)


def test_brief_check_names_the_failure_and_skips_gaps(tmp_path: Path) -> None:
    assert set(CHECKS) == {"lookups", "order", "atomicity", "persistence"}
    with pytest.raises(Wrong, match="conformance, atomicity: all after a failed transaction"):
        brief(CHECKS, opened(spec(WritesAtOnce), Tier.PROCESS, tmp_path / "a"), Tier.PROCESS)
    brief(CHECKS, opened(spec(WritesAtOnce), Tier.PROCESS, tmp_path / "b"), Tier.PROCESS, gaps={"atomicity"})
