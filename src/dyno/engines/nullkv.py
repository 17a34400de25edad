"""The null engine of the `ordered-kv` port: what the record layer costs, on top of what `null` shows.

It has no value to decode, so the decoding of a record is not in its figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.null_port import NullKeys


class NullKV:
    """Nothing to open."""

    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        pass

    def close(self) -> None:
        pass

    def version(self) -> str:
        return "does nothing"

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("floor", "does nothing under the record layer: the harness's cost and the layer's")


ENGINE = EngineSpec(
    name="nullkv",
    title="Nothing, under the record layer: what the layer costs a key-value engine",
    opener=NullKV,
    ports={"ordered-kv": PortSpec(NullKeys)},
    tiers={Tier.VOLATILE: {}, Tier.PROCESS: {}, Tier.POWER: {}},
    default_tier=Tier.VOLATILE,
    clients="processes",
    floor=True,
)
