"""A sorted dict in memory: sortedcontainers, where acid's benchmark had a skip list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.ordered_kv import Entry
from dyno.contracts.overlay import Overlay, Pending, overlay
from dyno.host.versions import version


class Memory:
    """The dict lives as long as the process."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from sortedcontainers import SortedDict

        self.store: Any = SortedDict()

    def close(self) -> None:
        self.store.clear()

    def version(self) -> str:
        return f"sortedcontainers {version('sortedcontainers')}"

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds Python objects in this process: nothing is copied out of a store")


class Keys:
    """The `ordered-kv` port."""

    def __init__(self, engine: Memory) -> None:
        self._store = engine.store
        self.get = engine.store.get

    def first(self, key: bytes) -> Entry | None:
        store = self._store
        for found in store.irange(key):
            return found, store[found]
        return None

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        store = self._store
        return [(found, store[found]) for found in islice(store.irange(key), count)]

    def seek(self, key: bytes) -> Iterator[Entry]:
        store = self._store
        return ((found, store[found]) for found in store.irange(key))

    def reading(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)

    def single(self) -> AbstractContextManager[Keys]:
        return self.reading()

    def writing(self) -> AbstractContextManager[Overlay]:
        return overlay(self.get, self._commit)

    def _commit(self, pending: Pending) -> None:
        self._store.update((k, v) for k, v in pending.items() if v is not None)
        for key, value in pending.items():
            if value is None:
                self._store.pop(key, None)

    def close(self) -> None:
        pass


ENGINE = EngineSpec(
    name="memory",
    title="A sorted dict in memory (sortedcontainers)",
    opener=Memory,
    ports={"ordered-kv": PortSpec(Keys)},
    tiers={Tier.VOLATILE: {}},
    default_tier=Tier.VOLATILE,
    modules=("sortedcontainers",),
    requires=("sortedcontainers>=2.4",),
)
