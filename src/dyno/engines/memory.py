"""A sorted dict in memory, by the library sortedcontainers. The benchmark of acid had a skip list here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.host.installation import version
from dyno.suites._shared.ordered_kv import Entry, KVReader, OrderedKV, Overlay, Pending, overlay

if TYPE_CHECKING:
    from sortedcontainers import SortedDict


class Memory(Engine):
    """A sorted dict, which exists until the process ends."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        from sortedcontainers import SortedDict

        self.store: SortedDict = SortedDict()

    def close(self) -> None:
        self.store.clear()

    def version(self) -> str:
        return f"sortedcontainers {version('sortedcontainers')}"

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("in-process", "holds Python objects in this process: nothing is copied out of a store")


class Keys(OrderedKV, KVReader):
    """The `ordered-kv` port, and its reader."""

    def __init__(self, engine: Memory) -> None:
        self._store = engine.store
        self.get = engine.store.get  # type: ignore[method-assign]

    def first(self, key: bytes) -> Entry | None:
        for nearest in self._store.irange(key):
            return nearest, self._store[nearest]
        return None

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        store = self._store
        return [(each, store[each]) for each in islice(store.irange(key), count)]

    def seek(self, key: bytes) -> Iterator[Entry]:
        store = self._store
        return ((each, store[each]) for each in store.irange(key))

    def reading(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)

    def writing(self) -> AbstractContextManager[Overlay]:
        return overlay(self.get, self._commit)

    def _commit(self, pending: Pending) -> None:
        self._store.update((key, value) for key, value in pending.items() if value is not None)
        for key, value in pending.items():
            if value is None:
                self._store.pop(key, None)


ENGINE = EngineSpec(
    name="memory",
    title="A sorted dict in memory (sortedcontainers)",
    opener=Memory,
    ports={"ordered-kv": PortSpec(Keys)},
    tiers={Tier.VOLATILE: {}},
    installation=Installation(modules=("sortedcontainers",), requires=("sortedcontainers>=2.4",)),
)
