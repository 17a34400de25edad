"""The null engine of the `ordered-kv` port. Its figure is the cost of the record layer, in addition to that of
`null`.

It returns no values, so the cost of decoding records is not included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.ordered_kv import Entry, KVReader, KVWriter, OrderedKV


class NullKV(Engine):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        pass

    def version(self) -> str:
        return "does nothing"

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "does nothing under the record layer: the harness's cost and the layer's")


class Keys(OrderedKV, KVReader, KVWriter):
    """The `ordered-kv` port, with its reader and writer: accepts every entry and stores none."""

    def __init__(self, engine: NullKV) -> None:
        pass

    def get(self, key: bytes) -> bytes | None:
        return None

    def put(self, key: bytes, value: bytes) -> None:
        pass

    def delete(self, key: bytes) -> None:
        pass

    def seek(self, key: bytes) -> Iterator[Entry]:
        return iter(())

    def first(self, key: bytes) -> Entry | None:
        return None

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        return []

    def reading(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)

    def single(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)

    def writing(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)


ENGINE = EngineSpec(
    name="nullkv",
    title="Nothing, under the record layer: what the layer costs a key-value engine",
    opener=NullKV,
    ports={"ordered-kv": PortSpec(Keys)},
    tiers={Tier.VOLATILE: {}, Tier.PROCESS: {}, Tier.POWER: {}},
    default_tier=Tier.VOLATILE,
    clients="turns",
    floor=True,
)
