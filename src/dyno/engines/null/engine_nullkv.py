"""The null engine under the record layer. Its figure is the cost of the harness and of the layer over the port
`ordered-kv`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier
from dyno.contracts.ordered_kv import Entry, KVReader, KVWriter, OrderedKV
from dyno.engines.null.engine_null import Null, NullPort, nothing


class NullKV(Null):
    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "does nothing under the record layer: the harness's cost and the layer's")


class Keys(NullPort, OrderedKV, KVReader, KVWriter):
    """The `ordered-kv` port, with its reader and writer: accepts every entry and stores none. It returns no values,
    so the cost of decoding records is not included."""

    get, delete, first = nothing, nothing, nothing  # type: ignore[assignment]

    def put(self, key: bytes, value: bytes) -> None:
        pass

    def seek(self, key: bytes) -> Iterator[Entry]:
        return iter(())

    def stretch(self, key: bytes, count: int) -> list[Entry]:
        return []

    def reading(self) -> AbstractContextManager[Keys]:
        return nullcontext(self)

    single = writing = reading


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
