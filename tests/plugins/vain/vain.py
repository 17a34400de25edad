"""Test engines, not real ones, whose wrong answers claim to equal everything.

They store the same data as the memory engine. The conformance checks before measuring get right answers. Not for
measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Listing, PortSpec
from dyno.contracts.model import Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.contracts.suite import Failure
from dyno.engines import memory
from dyno.suites.records.layer import ENCODERS, LayeredRecords


class Claims:
    """Base of false answers, which equal everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


class Object(Claims):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, name: object) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter((self,))


class Dict(Claims, dict):  # type: ignore[misc]
    pass


class String(Claims, str):
    pass


class Bytes(Claims, bytes):
    pass


class Number(Claims, int):
    pass


class List(Claims, list):  # type: ignore[misc]
    pass


HOW: Mapping[str, Callable[[Any], Any]] = {
    "object": lambda record: Object(),
    "dict": Dict,
    "string": lambda record: {**record, "stub": String("x")},
    "name": lambda record: {String(name): value for name, value in record.items()},
    "number": lambda record: {**record, "stub": Number(1)},
    "failure": lambda record: Failure("OSError: not at all"),
}
"""Functions that turn a returned record into a false answer, by value of the option `how`."""


class Store(memory.Memory):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self.claims = "conformance" not in home.parts
        self.how = HOW[str(options["how"])] if self.claims else lambda record: record


class Reader:
    def __init__(self, reader: Any, how: Callable[[Any], Any]) -> None:
        self._reader, self._how = reader, how

    def get(self, key: Any) -> Any:
        return self._how(self._reader.get(key))

    def finder(self, index: str) -> Callable[[str], Any]:
        find = self._reader.finder(index)
        return lambda value: self._how(find(value))

    def scanner(self, count: int) -> Callable[[Any], Any]:
        scan = self._reader.scanner(count)
        return lambda key: [self._how(record) for record in scan(key)]


class Records(LayeredRecords):
    """The `records` port."""

    def __init__(self, engine: Store, indexed: bool) -> None:
        open_keys: Callable[[Store], Any] = memory.Keys
        super().__init__(open_keys(engine), ENCODERS["msgpack"], indexed)
        self._how = engine.how

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with super().reading() as reader:
            yield Reader(reader, self._how)

    def reader(self) -> Any:
        return Reader(super().reader(), self._how)

    def replace(self, records: Iterable[Any]) -> Any:
        return [self._how(old) if old else old for old in super().replace(records)]


class Keys(memory.Keys):
    """The `ordered-kv` port: scans return wrong keys that equal everything, and right values."""

    def __init__(self, engine: Store) -> None:
        super().__init__(engine)
        self._claims = engine.claims

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        if key.strip(b"\0") or not self._claims:
            return super().seek(key)
        return ((Bytes(b"?"), self._store[found]) for found in self._store.irange(key))

    def reading(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)


ENGINE = replace(
    memory.ENGINE,
    name="vain",
    title="Test engine: its answers claim to equal everything",
    opener=Store,
    ports={"records": PortSpec(Records)},
    options=(Setting("how", choice(*HOW), "object", "what its answers are"),),
    listing=Listing(by_default=False),
)
KEYS = replace(
    memory.ENGINE,
    name="vain-keys",
    title="Test engine: its keys claim to equal everything",
    opener=Store,
    options=ENGINE.options,
    ports={"ordered-kv": PortSpec(Keys)},
    listing=Listing(by_default=False),
)
