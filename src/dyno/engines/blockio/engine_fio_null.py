"""fio's null engine, which does no I/O: the floor of the suite volume, fio's own cost."""

from __future__ import annotations

from functools import partial

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.engines.blockio import volumes

ENGINE = EngineSpec(
    name="fio_null",
    title="Nothing: fio and dd on no volume, the floor of the suite volume",
    opener=partial(volumes.Fio, null=True),
    ports={"volume": PortSpec(volumes.Volume)},
    tiers={},
    packages=("fio",),
    needs=volumes.needs,
    floor=True,
)
